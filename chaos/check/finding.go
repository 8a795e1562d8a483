package check

import (
	"fmt"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Finding is the result of a check.
type Finding struct {
	Invariant string     // its number
	Promise   string     // in words
	Observed  []Observed // the cases that put the invariant to the test; of each there must be one
	Figures   Figures    // all counts and times, in words
	Breaches  []Breach
	NotBuilt  bool // the service lacks the feature that the invariant is about
}

// Breach is one case in which an invariant did not hold.
type Breach struct {
	ID   string          // of the task; empty: it is about none
	At   history.Instant // when it showed
	What string
}

func (f *Finding) breach(at history.Instant, id, format string, args ...any) {
	f.Breaches = append(f.Breaches, Breach{ID: id, At: at, What: fmt.Sprintf(format, args...)})
}

// Limits are what a run is held to.
type Limits struct {
	// Settle is how long after an arrival its outcome may still be uncommitted, so that a failover repeats it.
	Settle time.Duration
	// Tail is how long after the mending of a fault what was in flight in it may still arrive.
	Tail time.Duration
	// Recover is how long after the mending of a fault every shard must take a write.
	Recover time.Duration
	// Attempt is how long an attempt may be under way: a request that the network held up may arrive as long after its
	// sender was deposed.
	Attempt time.Duration
	// FirstFire is how long after a start of all nodes the first overdue task must arrive.
	FirstFire time.Duration
	// Detect is how long before a new term its cause may lie.
	Detect time.Duration
	// Surprise is how long before the last sight of an old term it may already have lost its followers.
	Surprise time.Duration
	// Failover is how late what becomes due while a dead leader has no successor may arrive; 0: as late as it likes.
	Failover time.Duration
}

// DefaultLimits are for an undisturbed machine.
func DefaultLimits() Limits {
	return Limits{
		Settle: time.Second, Tail: 3 * time.Second, Recover: 5 * time.Second, FirstFire: 2 * time.Second,
		Detect: 5 * time.Second, Surprise: 2 * time.Second, Attempt: 15 * time.Second,
		Failover: 1500 * time.Millisecond,
	}
}

// All holds every invariant against a history but the 8th, which package linear does.
func All(x *Index, limits Limits) []Finding {
	return []Finding{
		Lost(x), Early(x), Cancelled(x), OneBody(x), Repeats(x, limits), Lateness(x, limits), Fences(x, limits),
		Undead(x, limits), Occurrences(), Replicas(x), Leases(x, limits), Recovery(x, limits), FirstFire(x, limits),
		Hints(x, limits), Honest(x),
	}
}

// Occurrences stands for invariant 10, which has no check: the service has no repeating tasks yet.
func Occurrences() Finding {
	return Finding{
		Invariant: "10", Promise: "repeating tasks neither skip nor double", NotBuilt: true,
		Figures: NewFigures("there are no repeating tasks yet"),
	}
}
