package membership

import (
	"sync/atomic"

	"github.com/belfryhq/belfry/cluster/internal/witness"
)

// Admission says whether the node takes part in its cluster. Its methods are safe for concurrent use.
type Admission struct {
	check   atomic.Pointer[witness.Check]   // nil: the check has not begun
	present atomic.Bool                     // the node takes part, or has no data yet that could be old
	refusal atomic.Pointer[witness.Refusal] // the reason why the node will never take part
	aside   chan struct{}                   // closed when refusal is set
}

// NewAdmission returns the admission of a starting node. A node without a cluster takes part at once.
func NewAdmission(clusterID string) *Admission {
	a := &Admission{aside: make(chan struct{})}
	a.present.Store(clusterID == "")
	return a
}

// TakesPart reports whether the node takes part, or has no data yet that could be old.
func (a *Admission) TakesPart() bool { return a.present.Load() }

// refuse ends the node's part, and reports whether it was the first to do so.
func (a *Admission) refuse(why *witness.Refusal) bool {
	if !a.refusal.CompareAndSwap(nil, why) {
		return false
	}
	a.present.Store(false)
	close(a.aside)
	return true
}

// Aside returns a channel that is closed when the node will never take part again.
func (a *Admission) Aside() <-chan struct{} { return a.aside }

// Refused reports whether the node will never take part.
func (a *Admission) Refused() bool { return a.refusal.Load() != nil }

// Barred returns the reason why the node does not take part in its cluster, as yet or at all. The reason is empty if
// the node takes part, or is in no cluster yet.
func (a *Admission) Barred() string {
	if refusal := a.refusal.Load(); refusal != nil {
		return "this node does not take part: " + refusal.Error()
	}
	if a.present.Load() {
		return ""
	}
	if check := a.check.Load(); check != nil {
		if waits := check.Status(); waits != "" {
			return waits
		}
	}
	return "this node is opening its data folder"
}
