package check

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Clocks is how far from true time the clocks may have been that the service went by, and when. The service's promises
// are by its leaders' clocks, so this is what they allow.
//
// Nodes hold each other to a bound: while a clock was moved by a fault, what went by it is wrong by that bound at most.
// Nobody holds a node to it that is alone. It goes by whatever its clock says, and so it is excused for just that: by
// as much as the clock was moved, and in that direction.
type Clocks struct{ off []off }

// off is a time in which a clock may have been that far behind or ahead. It may have been right as well.
type off struct {
	from, to      history.Instant
	mending       history.Instant // when it was set right
	behind, ahead time.Duration
	nodes         []string
}

const (
	// clockBound is by how much clocks may be off that decide something: nodes' --max-clock-offset, and what a clock that
	// drifts may gain until it is noticed.
	clockBound = 300 * time.Millisecond
	// clockTail is how long after the mending of a clock what it decided may still show.
	clockTail = time.Second
)

// NewClocks is what faults made of the clocks.
func NewClocks(faults []history.Fault) Clocks {
	var c Clocks
	for i := range faults {
		f := &faults[i]
		if f.Skew == 0 {
			continue
		}
		o := off{from: f.Struck, to: healed(f).Add(clockTail), mending: f.Mending, nodes: f.Nodes}
		if f.Alone {
			o.behind, o.ahead = max(-f.Skew, 0), max(f.Skew, 0)
		} else {
			bound := min(f.Skew.Abs(), clockBound)
			o.behind, o.ahead = bound, bound
		}
		c.off = append(c.off, o)
	}
	return c
}

// Off is by how much a clock may have been behind or ahead at most that decided something between two instants.
func (c Clocks) Off(from, to history.Instant) (behind, ahead time.Duration) {
	for _, o := range c.off {
		if o.from <= to && from <= o.to {
			behind, ahead = max(behind, o.behind), max(ahead, o.ahead)
		}
	}
	return behind, ahead
}

// Earliest is the first instant at which a clock may have shown a time: by a right one then, or before, by one that was
// ahead.
func (c Clocks) Earliest(shown history.Instant) history.Instant {
	first := shown
	for _, o := range c.off {
		if at := max(o.from, shown.Add(-o.ahead)); at <= o.to {
			first = min(first, at)
		}
	}
	return first
}

// leap is an instant at which a clock was set ahead.
type leap struct {
	at    history.Instant
	nodes []string
}

// leaps are those by more than some time: when a fault struck, or when a clock was set right that was behind.
func (c Clocks) leaps(more time.Duration) []leap {
	var all []leap
	for i, o := range c.off {
		others := Clocks{slices.Concat(c.off[:i], c.off[i+1:])}
		if behind, _ := others.Off(o.from, o.from); behind+o.ahead > more {
			all = append(all, leap{o.from, o.nodes})
		}
		if behind, _ := c.Off(o.mending, o.mending); o.mending != 0 && behind > more {
			all = append(all, leap{o.mending, o.nodes})
		}
	}
	return all
}
