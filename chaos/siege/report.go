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
	"github.com/belfryhq/belfry/chaos/vitals"
)

// Report is what came of a siege.
type Report struct {
	Seed    uint64        `json:"seed"`
	Nodes   int           `json:"nodes"`
	Shards  int           `json:"shards"`
	Chosen  []string      `json:"chosen,omitempty"` // faults that were asked for; none: all
	Drills  time.Duration `json:"drills,omitempty"` // for how long a siege with drills was asked to last
	Flags   []string      `json:"flags,omitempty"`  // that a replay must be given besides
	Version string        `json:"version"`          // of the code under siege
	Machine string        `json:"machine"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took"`

	Rounds   []*RoundReport             `json:"rounds"`
	Tasks    check.Fates                `json:"tasks"`
	Calls    map[history.Kind]CallCount `json:"calls"`
	Arrivals int                        `json:"arrivals"`
	Tolls    []check.Toll               `json:"faults"`
	Findings []check.Finding            `json:"findings"` // of all rounds together; breaches are told by the rounds
	Breaches map[string]int             `json:"breaches"` // by invariant
	Outcomes map[string]check.Outcome   `json:"outcomes"` // by invariant
	Skipped  []Skipped                  `json:"skipped"`
	Thorough bool                       `json:"thorough,omitempty"` // long enough to exercise each invariant
	Soak     bool                       `json:"soak,omitempty"`
	Trends   []vitals.Trend             `json:"trends"`          // of what the nodes took from the machine
	Errors   int                        `json:"errors"`          // lines of that level in the nodes' logs
	After    []string                   `json:"after,omitempty"` // what nodes did after the last verdict that none may do

	Watched  time.Duration `json:"watched"`            // for which the nodes were
	Unjudged []string      `json:"unjudged,omitempty"` // what of a long soak was not seen well enough to call it flat

	series []vitals.Series
}

// RoundReport is what came of one round.
type RoundReport struct {
	N        int                        `json:"n"`
	Seed     uint64                     `json:"seed"`
	Took     time.Duration              `json:"took"`
	OK       bool                       `json:"ok"`
	Drill    bool                       `json:"drill,omitempty"` // faults that came alone, by a plan
	Struck   int                        `json:"struck"`
	Arrivals int                        `json:"arrivals"`
	Tasks    check.Fates                `json:"tasks"`
	Dir      string                     `json:"dir,omitempty"`     // where its record is, if it is kept
	Verdict  string                     `json:"verdict,omitempty"` // in full, if it did not hold
	Calls    map[history.Kind]CallCount `json:"-"`
	Tolls    []check.Toll               `json:"-"`
	Findings []check.Finding            `json:"-"`
	Errors   int                        `json:"-"`
}

// CallCount is how the calls of one kind ended.
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

// version is the revision that this program was built from, which builds the nodes too unless it is told otherwise.
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

// OK reports whether no round broke an invariant, no node did anything forbidden after the last one, and in a soak
// whether the nodes' vitals were seen and stayed flat. A siege without a round has shown nothing.
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

// Struck is how many faults struck.
func (r *Report) Struck() int {
	n := 0
	for _, round := range r.Rounds {
		n += round.Struck
	}
	return n
}

// skip reports a kind of fault that cannot strike. Kinds of one group are mostly skipped for one reason.
func (r *Report) skip(k faults.Kind, why error) {
	for i := range r.Skipped {
		if s := &r.Skipped[i]; s.Group == k.Group && s.Why == why.Error() {
			s.Faults = append(s.Faults, k.Name)
			return
		}
	}
	r.Skipped = append(r.Skipped, Skipped{
		Group: k.Group, Why: why.Error(), Faults: []string{k.Name},
		Chosen: errors.Is(why, faults.ErrFewNodes) || errors.Is(why, faults.ErrKeys),
	})
}

// Skipped are faults of a group that could not strike.
type Skipped struct {
	Group  string   `json:"group"`
	Why    string   `json:"why"`
	Chosen bool     `json:"chosen,omitempty"` // with the cluster: the machine could do it
	Faults []string `json:"faults"`
}

func (s Skipped) String() string {
	return fmt.Sprintf("%d faults of group %q (%s): %s", len(s.Faults), s.Group, strings.Join(s.Faults, ", "), s.Why)
}

// watched takes what a watch on the nodes saw.
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

// swollen is what grew in a soak. In a siege nodes die and come back, and nothing can be said of it.
func (r *Report) swollen() []vitals.Trend {
	if !r.Soak {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Trends), vitals.Trend.Flat)
}

// add adds a round.
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
		r.Findings = append(r.Findings, check.Finding{Invariant: f.Invariant, Promise: f.Promise, NotBuilt: f.NotBuilt})
	}
	r.Findings[i] = r.Findings[i].Plus(f)
	r.Outcomes[f.Invariant] = r.outcome(&r.Findings[i])
}

// outcome is that of all rounds together.
func (r *Report) outcome(f *check.Finding) check.Outcome {
	if r.Breaches[f.Invariant] > 0 {
		return check.Breached
	}
	return f.Outcome()
}

// Idle are the findings about invariants that a thorough siege did not put to the test, though it could have: none, if
// the siege was a short one.
func (r *Report) Idle() []check.Finding {
	if !r.Thorough {
		return nil
	}
	return slices.DeleteFunc(r.Unexercised(), func(f check.Finding) bool {
		return slices.ContainsFunc(r.Skipped, func(s Skipped) bool { return s.Group == groupOf[f.Invariant] })
	})
}

// groupOf names the group of faults without which an invariant cannot be put to the test.
var groupOf = map[string]string{"2": "clock", "13d": "disk", "13e": "gossip"}

// Unexercised are the findings about invariants that no round put to the test.
func (r *Report) Unexercised() []check.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f check.Finding) bool {
		return r.outcome(&f) != check.NotExercised
	})
}

// String is a round in a line.
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
