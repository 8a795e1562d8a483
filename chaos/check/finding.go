package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Finding is the result of a check.
type Finding struct {
	Invariant string     // the invariant's number
	Promise   string     // the invariant in words
	Observed  []Observed // the cases that put the invariant to the test; each kind must occur
	Figures   Figures    // the check's counts and times, in words
	Breaches  []Breach
}

// Breach is one case in which an invariant did not hold.
type Breach struct {
	Namespace string // of the task, in a run with several; empty: the default one

	ID   string          // id of the task; empty: the breach is about no single task
	At   history.Instant // when the breach showed
	What string
}

func (f *Finding) breach(at history.Instant, id, format string, args ...any) {
	f.Breaches = append(f.Breaches, Breach{ID: id, At: at, What: fmt.Sprintf(format, args...)})
}

// Limits are the time limits to which a run is held.
type Limits struct {
	// Settle is the longest time from an arrival's answer until its outcome is committed. A failover within it may repeat
	// the attempt.
	Settle time.Duration
	// Tail is the longest time from the mending of a fault until the last arrival of an attempt that was in flight in it.
	Tail time.Duration
	// Recover is the longest time from the mending of a fault until every shard has taken a write.
	Recover time.Duration
	// Attempt is the longest time that an attempt may be under way. A request that the network held up may arrive that
	// long after its sender was deposed.
	Attempt time.Duration
	// FirstFire is the longest time from a start of all nodes until the first overdue task arrives.
	FirstFire time.Duration
	// Detect is the longest time from the mending of a fault to a new term that the fault still explains.
	Detect time.Duration
	// Surprise is the longest time that an old leader may already have lost its followers while its term was still seen.
	Surprise time.Duration
	// Failover is the lateness allowed to tasks that become due while a dead leader has no successor; 0: any lateness.
	Failover time.Duration
	// Path is the lateness allowed to tasks of one path while another path of their receiver fails; 0: any lateness.
	Path time.Duration
	// Stop is the longest attempt that a node which was asked to stop ends before it gives its leaderships away; 0: none.
	Stop time.Duration
}

// DefaultLimits returns the limits for an undisturbed machine.
func DefaultLimits() Limits {
	return Limits{
		Settle: time.Second, Tail: 3 * time.Second, Recover: 5 * time.Second, FirstFire: 2 * time.Second,
		Detect: 5 * time.Second, Surprise: 2 * time.Second, Attempt: 15 * time.Second,
		Failover: 1500 * time.Millisecond, Path: time.Second, Stop: 2 * time.Second,
	}
}

// Timeless returns limits that no run exceeds, for runs whose times say nothing. Most checks then compare instants of
// the run with each other alone.
func Timeless() Limits {
	const ever = time.Hour
	return Limits{
		Settle: ever, Tail: ever, Recover: ever, FirstFire: ever, Detect: ever, Surprise: ever, Attempt: ever, Failover: ever,
	}
}

// All runs every check but that of invariant 8, which is in package linear.
func All(x *Index, limits Limits) []Finding {
	return []Finding{
		Lost(x), Early(x), Cancelled(x), OneBody(x), Repeats(x, limits), Lateness(x, limits), Paths(x, limits),
		Fences(x, limits), Undead(x, limits), Occurrences(x, limits), Replicas(x), Leases(x, limits), Recovery(x, limits),
		FirstFire(x, limits), Hints(x, limits), Majority(x, limits), Honest(x), Groups(x), Followed(x),
	}
}

// Outcome is the outcome of a check.
type Outcome string

// The outcomes of checks. A check without a breach has shown something only if it observed cases that could have been
// breaches.
const (
	Held         Outcome = "held"
	Breached     Outcome = "breached"
	NotExercised Outcome = "not exercised"
)

// Observed counts the cases of one kind that put an invariant to the test.
type Observed struct {
	Name  string // name of the cases, in the plural
	Count int
}

func (o Observed) String() string { return fmt.Sprintf("%d %s", o.Count, o.Name) }

// Observe adds a kind of cases without which the invariant is not exercised, and the number of such cases observed.
func (f *Finding) Observe(count int, name string) {
	f.Observed = append(f.Observed, Observed{name, count})
}

// Broken reports whether there is a breach.
func (f *Finding) Broken() bool { return len(f.Breaches) > 0 }

// Outcome returns Breached with any breach, NotExercised unless every kind of cases was observed, and else Held. A
// check that names no kind of cases is not exercised.
func (f *Finding) Outcome() Outcome {
	switch {
	case f.Broken():
		return Breached
	case len(f.Observed) == 0 || len(f.Missing()) > 0:
		return NotExercised
	}
	return Held
}

// Missing returns the names of the kinds of cases that were not observed.
func (f *Finding) Missing() []string {
	var names []string
	for _, o := range f.Observed {
		if o.Count == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// Plus returns the sum of two findings of different runs about the same invariant. It does not alter f.
func (f Finding) Plus(g Finding) Finding {
	sum := f
	sum.Figures = f.Figures.Plus(g.Figures)
	sum.Observed = append([]Observed(nil), f.Observed...)
	for _, o := range g.Observed {
		sum.observe(o)
	}
	sum.Breaches = append(f.Breaches[:len(f.Breaches):len(f.Breaches)], g.Breaches...)
	return sum
}

func (f *Finding) observe(o Observed) {
	for i := range f.Observed {
		if f.Observed[i].Name == o.Name {
			f.Observed[i].Count += o.Count
			return
		}
	}
	f.Observed = append(f.Observed, o)
}

// Beside returns the sum of the findings about two namespaces of one run. A kind of cases that one of them lacks counts
// as not observed, so that the invariant holds only if it was put to the test in both. It does not alter f.
func (f Finding) Beside(g Finding) Finding {
	sum := f.Plus(g)
	for i := range sum.Observed {
		o := &sum.Observed[i]
		if f.observed(o.Name) == 0 || g.observed(o.Name) == 0 {
			o.Count = 0
		}
	}
	return sum
}

func (f *Finding) observed(name string) int {
	for _, o := range f.Observed {
		if o.Name == name {
			return o.Count
		}
	}
	return 0
}

// In returns the finding with its breaches in a namespace. It does not alter f.
func (f Finding) In(namespace string) Finding {
	f.Breaches = slices.Clone(f.Breaches)
	for i := range f.Breaches {
		f.Breaches[i].Namespace = namespace
	}
	return f
}
