package siege

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/vitals"
)

// Report is the outcome of a siege.
type Report struct {
	Seed    uint64        `json:"seed"`
	Nodes   int           `json:"nodes"`
	Shards  int           `json:"shards"`
	Chosen  []string      `json:"chosen,omitempty"` // requested faults; none: all
	Drills  time.Duration `json:"drills,omitempty"` // requested length of a siege with drills, else 0
	Flags   []string      `json:"flags,omitempty"`  // further flags of the command, which a replay needs
	Version string        `json:"version"`          // revision of the code under siege
	Machine string        `json:"machine"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took"`

	Rounds   []*RoundReport             `json:"rounds"`
	Tasks    check.Fates                `json:"tasks"`
	Calls    map[history.Kind]CallCount `json:"calls"`
	Arrivals int                        `json:"arrivals"`
	Tolls    []check.Toll               `json:"faults"`
	Findings []check.Finding            `json:"findings"` // of all rounds together; the rounds list the breaches
	Breaches map[string]int             `json:"breaches"` // number by invariant
	Outcomes map[string]check.Outcome   `json:"outcomes"` // by invariant
	Skipped  []Skipped                  `json:"skipped"`
	Thorough bool                       `json:"thorough,omitempty"` // long enough to exercise each invariant
	Soak     bool                       `json:"soak,omitempty"`
	Trends   []vitals.Trend             `json:"trends"`          // of the resources that the nodes took
	Errors   int                        `json:"errors"`          // lines of level error in the nodes' logs
	After    []string                   `json:"after,omitempty"` // forbidden events of nodes after the last verdict

	Watched  time.Duration `json:"watched"`            // time for which the nodes were watched
	Unjudged []string      `json:"unjudged,omitempty"` // quantities of a long soak that were seen too rarely to judge

	series []vitals.Series
}

// RoundReport is the outcome of one round.
type RoundReport struct {
	N        int                        `json:"n"`
	Seed     uint64                     `json:"seed"`
	Took     time.Duration              `json:"took"`
	OK       bool                       `json:"ok"`
	Drill    bool                       `json:"drill,omitempty"` // faults that came alone, by a plan
	Struck   int                        `json:"struck"`
	Arrivals int                        `json:"arrivals"`
	Rate     int                        `json:"rate"` // arrivals in the median second
	Tasks    check.Fates                `json:"tasks"`
	Dir      string                     `json:"dir,omitempty"`     // folder of the record, if it is kept
	Verdict  string                     `json:"verdict,omitempty"` // full text, if an invariant was broken
	Calls    map[history.Kind]CallCount `json:"-"`
	Tolls    []check.Toll               `json:"-"`
	Findings []check.Finding            `json:"-"`
	Errors   int                        `json:"-"`
}

// CallCount counts the outcomes of the calls of one kind.
type CallCount struct {
	OK      int `json:"ok"`
	Failed  int `json:"failed"`
	Unknown int `json:"unknown"`
}

func newReport(cfg Config) *Report {
	return &Report{
		Seed: cfg.Seed, Nodes: cfg.Nodes, Shards: cfg.Shards, Chosen: cfg.Faults, Flags: cfg.Flags,
		Version: version(), Machine: machine(),
		Began: time.Now(), Soak: cfg.Soak, Thorough: cfg.thorough(), Drills: cfg.drilled(),
		Calls: map[history.Kind]CallCount{}, Breaches: map[string]int{},
		Outcomes: map[string]check.Outcome{},
	}
}

// version returns the revision that this program was built from. The nodes are built from it too, unless their program
// is given.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	known := map[string]string{}
	for _, s := range info.Settings {
		known[s.Key] = s.Value
	}
	text := info.Main.Version
	if rev := known["vcs.revision"]; rev != "" {
		text = rev
	}
	if known["vcs.modified"] == "true" {
		text += ", modified"
	}
	return text
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

// Struck returns how many faults struck.
func (r *Report) Struck() int {
	n := 0
	for _, round := range r.Rounds {
		n += round.Struck
	}
	return n
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
	Group  string   `json:"group"`
	Why    string   `json:"why"`
	Chosen bool     `json:"chosen,omitempty"` // because of the chosen cluster; the machine could run them
	Faults []string `json:"faults"`
}

func (s Skipped) String() string {
	return fmt.Sprintf("%d faults of group %q (%s): %s", len(s.Faults), s.Group, strings.Join(s.Faults, ", "), s.Why)
}

// watched takes the series of a watch on the nodes' vitals.
func (r *Report) watched(nodes []string, watch *vitals.Watch) {
	r.series, r.Watched = watch.End()
	if r.Soak {
		r.Unjudged = vitals.Unjudged(r.series, nodes, r.Watched)
	}
}

func (r *Report) finish() {
	r.Took = time.Since(r.Began)
	for _, s := range r.series {
		r.Trends = append(r.Trends, s.Trend())
	}
}

// swollen returns the quantities that grew in a soak. It returns none for any other siege, in which nodes die and come
// back.
func (r *Report) swollen() []vitals.Trend {
	if !r.Soak {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Trends), vitals.Trend.Flat)
}

// add adds a round to the sums.
func (r *Report) add(round *RoundReport) {
	r.Rounds = append(r.Rounds, round)
	r.Tasks = r.Tasks.Plus(round.Tasks)
	r.Arrivals += round.Arrivals
	r.Errors += round.Errors
	for kind, n := range round.Calls {
		sum := r.Calls[kind]
		r.Calls[kind] = CallCount{sum.OK + n.OK, sum.Failed + n.Failed, sum.Unknown + n.Unknown}
	}
	for _, toll := range round.Tolls {
		r.addToll(toll)
	}
	for _, f := range round.Findings {
		r.addFinding(f)
	}
}

func (r *Report) addToll(toll check.Toll) {
	for i, known := range r.Tolls {
		if known.Kind == toll.Kind {
			r.Tolls[i] = known.Plus(toll)
			return
		}
	}
	r.Tolls = append(r.Tolls, toll)
}

func (r *Report) addFinding(f check.Finding) {
	r.Breaches[f.Invariant] += len(f.Breaches)
	f.Breaches = nil
	i := slices.IndexFunc(r.Findings, func(known check.Finding) bool { return known.Invariant == f.Invariant })
	if i < 0 {
		i = len(r.Findings)
		r.Findings = append(r.Findings, check.Finding{Invariant: f.Invariant, Promise: f.Promise})
	}
	r.Findings[i] = r.Findings[i].Plus(f)
	r.Outcomes[f.Invariant] = r.outcome(&r.Findings[i])
}

// outcome returns the outcome of an invariant over all rounds.
func (r *Report) outcome(f *check.Finding) check.Outcome {
	if r.Breaches[f.Invariant] > 0 {
		return check.Breached
	}
	return f.Outcome()
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
		return r.outcome(&f) != check.NotExercised
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
