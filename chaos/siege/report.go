package siege

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
)

// Report is the outcome of a siege. Its Sum has the sums of all rounds; the rounds list the breaches.
type Report struct {
	Sum

	Seed    uint64
	Nodes   int
	Shards  int
	Chosen  []string      // requested faults; none: all
	Drills  time.Duration // requested length of a siege with drills, else 0
	Flags   []string      // further flags of the command, which a replay needs
	Version string        // revision of the code under siege
	Machine string
	Began   time.Time
	Took    time.Duration

	Rounds   []*RoundReport
	Breaches map[string]int // number by invariant
	Skipped  []Skipped
	Thorough bool // long enough to exercise each invariant
	Soak     bool
	Trends   []Trend  // of the resources that the nodes took
	After    []string // forbidden events of nodes after the last verdict

	Watched  time.Duration // time for which the nodes were watched
	Unjudged []string      // quantities of a long soak that were seen too rarely to judge
}

// Sum has the counts and findings of one round, or of several.
type Sum struct {
	Tasks    check.Fates
	Calls    map[history.Kind]CallCount
	Arrivals int
	Struck   int // faults
	Errors   int // lines of level error in the nodes' logs
	Tolls    []check.Toll
	Findings []check.Finding
}

// RoundReport is the outcome of one round.
type RoundReport struct {
	Sum

	N       int
	Took    time.Duration
	OK      bool
	Drill   bool   // faults that came alone, by a plan
	Rate    int    // arrivals in the median second
	Dir     string // folder of the record, if it is kept
	Verdict string // full text, if an invariant was broken
}

// CallCount counts the outcomes of the calls of one kind.
type CallCount struct {
	OK, Failed, Unknown int
}

func newReport(cfg Config) *Report {
	return &Report{
		Seed: cfg.Seed, Nodes: cfg.Nodes, Shards: cfg.Shards, Chosen: cfg.Faults, Flags: cfg.Flags,
		Version: version(), Machine: machine(),
		Began: time.Now(), Soak: cfg.Soak, Thorough: cfg.thorough(), Drills: cfg.drilled(),
		Sum: Sum{Calls: map[history.Kind]CallCount{}}, Breaches: map[string]int{},
	}
}

// version returns the version that this program was built from, with the revision if Go recorded it. The nodes are
// built from it too, unless their program is given.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

func machine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

// OK reports whether no round broke an invariant and no node did anything forbidden after the last round. In a soak the
// nodes' vitals must also have been seen and have stayed flat. A siege without a round is not OK, because it has shown
// nothing.
func (r *Report) OK() bool {
	if len(r.swollen()) > 0 || len(r.Unjudged) > 0 || len(r.After) > 0 {
		return false
	}
	for _, round := range r.Rounds {
		if !round.OK {
			return false
		}
	}
	return len(r.Rounds) > 0
}

// skip reports a kind of fault that cannot strike. Kinds of one group mostly share one reason.
func (r *Report) skip(k faults.Kind, why error) {
	for i := range r.Skipped {
		if s := &r.Skipped[i]; s.Group == k.Group && s.Why == why.Error() {
			s.Faults = append(s.Faults, k.Name)
			return
		}
	}
	r.Skipped = append(r.Skipped, Skipped{
		Group: k.Group, Why: why.Error(), Faults: []string{k.Name},
		Chosen: errors.Is(why, faults.ErrFewNodes) || errors.Is(why, stand.ErrNoSpare) || errors.Is(why, faults.ErrKeys) ||
			errors.Is(why, stand.ErrOneBuild) || errors.Is(why, stand.ErrPatient) ||
			errors.Is(why, stand.ErrOneZone),
	})
}

// Skipped lists the faults of a group that could not strike for one reason.
type Skipped struct {
	Group  string
	Why    string
	Chosen bool // because of the chosen cluster; the machine could run them
	Faults []string
}

// watched takes the series of a watch on the nodes' vitals, and ends the siege.
func (r *Report) watched(nodes []string, watch *watch) {
	var all []series
	all, r.Watched = watch.end()
	if r.Soak {
		r.Unjudged = unjudged(all, nodes, r.Watched)
	}
	for _, s := range all {
		r.Trends = append(r.Trends, s.trend())
	}
	r.Took = time.Since(r.Began)
}

// swollen returns the quantities that grew in a soak. It returns none for any other siege, in which nodes die and come
// back.
func (r *Report) swollen() []Trend {
	if !r.Soak {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Trends), Trend.Flat)
}

// add adds a round to the sums.
func (r *Report) add(round *RoundReport) {
	r.Rounds = append(r.Rounds, round)
	r.Tasks = r.Tasks.Plus(round.Tasks)
	r.Arrivals += round.Arrivals
	r.Struck += round.Struck
	r.Errors += round.Errors
	for kind, n := range round.Calls {
		sum := r.Calls[kind]
		r.Calls[kind] = CallCount{sum.OK + n.OK, sum.Failed + n.Failed, sum.Unknown + n.Unknown}
	}
	for _, toll := range round.Tolls {
		r.Tolls = check.AddToll(r.Tolls, toll)
	}
	for _, f := range round.Findings {
		r.addFinding(f)
	}
}

func (r *Report) addFinding(f check.Finding) {
	r.Breaches[f.Invariant] += len(f.Breaches)
	f.Breaches = nil
	if known := r.finding(f.Invariant); known != nil {
		*known = known.Plus(f)
	} else {
		r.Findings = append(r.Findings, f)
	}
}

// finding returns the finding of all rounds about an invariant; nil: there is none.
func (r *Report) finding(invariant string) *check.Finding {
	i := slices.IndexFunc(r.Findings, func(f check.Finding) bool { return f.Invariant == invariant })
	if i < 0 {
		return nil
	}
	return &r.Findings[i]
}

// Outcome returns the outcome of an invariant over all rounds.
func (r *Report) Outcome(invariant string) check.Outcome {
	if r.Breaches[invariant] > 0 {
		return check.Breached
	}
	if f := r.finding(invariant); f != nil {
		return f.Outcome()
	}
	return check.NotExercised
}

// Idle returns the findings about invariants that a thorough siege could have put to the test and did not. It returns
// none for a short siege.
func (r *Report) Idle() []check.Finding {
	if !r.Thorough {
		return nil
	}
	return slices.DeleteFunc(r.Unexercised(), func(f check.Finding) bool {
		return slices.ContainsFunc(r.Skipped, func(s Skipped) bool { return s.Group == groupOf[f.Invariant] })
	})
}

// groupOf names the group of faults that an invariant needs to be put to the test.
var groupOf = map[string]string{"2": "clock", "13d": "disk", "13e": "gossip", "13f": "shape", "17": "attack"}

// Unexercised returns the findings about invariants that no round put to the test.
func (r *Report) Unexercised() []check.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f check.Finding) bool {
		return r.Outcome(f.Invariant) != check.NotExercised
	})
}

// String describes the round in a line.
func (r *RoundReport) String() string {
	word := "ok"
	if !r.OK {
		var broken []string
		for _, f := range r.Findings {
			if f.Broken() {
				broken = append(broken, f.Invariant)
			}
		}
		word = "FAILED: invariants " + strings.Join(broken, ", ") + "; see " + r.Dir
	}
	drill := ""
	if r.Drill {
		drill = " (drill)"
	}
	return fmt.Sprintf("round %d%s: %.0f s, %d faults, %d acknowledged, %d arrivals, %s",
		r.N, drill, r.Took.Seconds(), r.Struck, r.Tasks.Acknowledged, r.Arrivals, word)
}

// Write writes report.md to a folder.
func (r *Report) Write(dir string) error {
	return os.WriteFile(filepath.Join(dir, "report.md"), []byte(r.Markdown()), 0o644)
}

// Tell writes a short form of the report.
func (r *Report) Tell(out io.Writer) error {
	_, err := fmt.Fprintf(out, "siege %s: %s\n", r.word(), r.summary())
	for _, note := range r.notes() {
		_, failed := fmt.Fprintf(out, "  %s\n", note)
		err = errors.Join(err, failed)
	}
	return err
}

// Markdown returns the report for human readers.
func (r *Report) Markdown() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("# Siege, seed %d: %s\n\n%s\n", r.Seed, r.word(), r.summary())
	if notes := r.notes(); len(notes) > 0 {
		say("```text\n%s\n```\n", strings.Join(notes, "\n"))
	}
	say("| | |\n| --- | --- |")
	say("| began | %s, took %v |", r.Began.UTC().Format(time.RFC3339), r.Took.Round(time.Second))
	say("| code | %s |", r.Version)
	say("| machine | %s |", r.Machine)
	say("| cluster | %d nodes, %d shards |\n", r.Nodes, r.Shards)
	r.tellInvariants(say)
	r.tellTolls(say)
	r.tellCalls(say)
	r.tellVitals(say)
	for _, round := range r.Rounds {
		if !round.OK {
			say("## Round %d failed\n\n```text\n%s```\n", round.N, round.Verdict)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (r *Report) word() string {
	switch n := len(r.Unexercised()); {
	case !r.OK():
		return "FAILED"
	case n == 1:
		return "held, as far as it was exercised: 1 invariant was not"
	case n > 1:
		return fmt.Sprintf("held, as far as it was exercised: %d invariants were not", n)
	}
	return "held"
}

// summary returns two sentences about the siege.
func (r *Report) summary() string {
	failed := 0
	for _, round := range r.Rounds {
		if !round.OK {
			failed++
		}
	}
	t := r.Tasks
	return fmt.Sprintf("%d rounds, %d of them failed; %d faults. Of %d acknowledged tasks %d were delivered, "+
		"%d ended by a later call, %d dead letters, %d still waiting, %d in doubt, %d not read, %d lost.",
		len(r.Rounds), failed, r.Struck, t.Acknowledged, t.Delivered, t.Ended, t.Dead, t.Waiting, t.Doubtful, t.Unread,
		t.Lost)
}

// notes returns the breaches of invariants, and the gaps in the evidence of the siege.
func (r *Report) notes() (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, f := range r.Findings {
		if n := r.Breaches[f.Invariant]; n > 0 {
			note("invariant %s, %s: %d breaches", f.Invariant, f.Promise, n)
		}
	}
	for _, f := range r.Unexercised() {
		note("invariant %s, %s: not exercised, no %s", f.Invariant, f.Promise, strings.Join(f.Missing(), ", no "))
	}
	for _, round := range r.Rounds {
		if !round.OK {
			note("round %d: see %s; again, with another timing: %s", round.N, round.Dir, r.replay(round))
		}
	}
	for _, event := range r.After {
		note("after the last verdict: %s", event)
	}
	for _, t := range r.swollen() {
		note("%s of %s grows: by %.3g from a median of %.4g; %.3g is allowed", measured(t), t.Node, t.Growth, t.Median,
			t.Bound)
	}
	if r.Soak && r.Watched < enough {
		note("not judged: too short a soak to judge what the nodes took: it lasted %v, and it takes %v",
			r.Watched.Round(time.Second), enough)
	}
	for _, reason := range r.Unjudged {
		note("not judged: %s", reason)
	}
	for _, skipped := range r.Skipped {
		word := "NOT TESTED" // the machine lacks a requirement
		if skipped.Chosen {
			word = "left out"
		}
		note("%s: %d faults of group %q (%s): %s", word, len(skipped.Faults), skipped.Group,
			strings.Join(skipped.Faults, ", "), skipped.Why)
	}
	return notes
}

// replay returns the command that makes the choices of a round again.
func (r *Report) replay(round *RoundReport) string {
	args := []string{"go run ./chaos/cmd/siege", fmt.Sprintf("--seed %d --round %d", r.Seed, round.N)}
	args = append(args, fmt.Sprintf("--nodes %d --shards %d", r.Nodes, r.Shards))
	if len(r.Chosen) > 0 {
		args = append(args, fmt.Sprintf("--faults %q", strings.Join(r.Chosen, ",")))
	}
	if r.Drills > 0 {
		args = append(args, "--for="+r.Drills.String()) // with the same length, the round is the same drill again
	}
	return strings.Join(append(args, r.Flags...), " ")
}

type teller func(format string, args ...any)

func (r *Report) tellInvariants(say teller) {
	say("## Invariants\n\nAn invariant is held if the run had each kind of case that could break it, and none did. An " +
		"invariant that lacks a kind of case is not exercised: the siege shows nothing about it.\n")
	say("| # | promise | | observed | figures |\n| --- | --- | --- | --- | --- |")
	for _, f := range r.Findings {
		outcome := r.Outcome(f.Invariant)
		word := string(outcome)
		switch outcome {
		case check.Breached:
			word = fmt.Sprintf("**%d breaches**", r.Breaches[f.Invariant])
		case check.NotExercised:
			word = "**not exercised**"
		}
		var observed []string
		for _, o := range f.Observed {
			observed = append(observed, o.String())
		}
		say("| %s | %s | %s | %s | %s |", f.Invariant, f.Promise, word, strings.Join(observed, "; "), f.Figures)
	}
	say("")
}

func (r *Report) tellTolls(say teller) {
	say("## Faults\n\nSeveral faults are under way at once. A task counts with each fault that was under way when it " +
		"came.\n")
	say("| fault | count | held, mean | pushed p50 | p99 | max | pulled p50 | p99 | max | repeats | 5xx | " +
		"schedules p99 | max | heals in, mean | max |")
	say("| --- |" + strings.Repeat(" ---: |", 14))
	slices.SortFunc(r.Tolls, func(a, b check.Toll) int { return strings.Compare(a.Kind, b.Kind) })
	for _, t := range r.Tolls {
		say("| %s | %d | %s | %s | %s | %d | %d | %s | %s | %s | %s |", t.Kind, t.Count, short(t.Held.Mean(), t.Held),
			quantiles(t.Late), quantiles(t.Pulled), t.Repeats, t.Refused, short(t.Calls.Quantile(99), t.Calls),
			short(t.Calls.Max, t.Calls), short(t.Heal.Mean(), t.Heal), short(t.Heal.Max, t.Heal))
	}
	say("")
}

// quantiles returns the median, the 99th percentile and the maximum of a spread, as cells of a table.
func quantiles(s check.Spread) string {
	return short(s.Quantile(50), s) + " | " + short(s.Quantile(99), s) + " | " + short(s.Max, s)
}

// short formats a time of a spread with about four digits. An empty spread has no times.
func short(d time.Duration, s check.Spread) string {
	if s.Count == 0 {
		return "–"
	}
	unit := time.Microsecond
	for d >= 10_000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

func (r *Report) tellCalls(say teller) {
	say("## Calls\n\n| call | ok | failed | unknown |\n| --- | ---: | ---: | ---: |")
	for _, kind := range slices.Sorted(maps.Keys(r.Calls)) {
		n := r.Calls[kind]
		say("| %s | %d | %d | %d |", kind, n.OK, n.Failed, n.Unknown)
	}
	say("\n%d attempts arrived; %d lines of level error in the nodes' logs.\n", r.Arrivals, r.Errors)
}

func (r *Report) tellVitals(say teller) {
	if len(r.Trends) == 0 {
		return
	}
	say("## What the nodes took\n\nMedian and highest after the first third of the time, and by how much the trend grew " +
		"from then on.\n\n| | node | median | highest | growth | allowed | |\n" +
		"| --- | --- | ---: | ---: | ---: | ---: | --- |")
	for _, t := range r.Trends {
		allowed, word := "–", ""
		if t.Judged && r.Soak {
			allowed, word = fmt.Sprintf("%.4g", t.Bound), "flat"
		}
		if r.Soak && !t.Flat() {
			word = "**GROWS**"
		}
		say("| %s | %s | %.4g | %.4g | %+.3g | %s | %s |", measured(t), t.Node, t.Median, t.Max, t.Growth, allowed, word)
	}
	say("")
}

func measured(t Trend) string {
	if t.Unit == "" {
		return t.Quantity
	}
	return t.Quantity + ", " + t.Unit
}
