package check

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Clocks holds how far the nodes' clocks may have been from true time, and when. The service's promises are by its
// leaders' clocks, so a check allows for these offsets.
//
//   - Nodes of one cluster hold each other to a bound. A moved clock that decides something is off by that bound at
//     most.
//   - No other node checks the clock of a lone node. Its errors are excused by the full offset of its clock, and only
//     in that direction.
type Clocks struct{ off []off }

// off is a time in which a clock may have been behind or ahead by the given offsets, or right.
type off struct {
	from, to      history.Instant
	mending       history.Instant // when the clock was set right
	behind, ahead time.Duration
	nodes         []string
}

const (
	// clockBound is the largest offset of a clock that decides something in a cluster: the nodes' --max-clock-offset, and
	// the gain of a drifting clock until its drift is noticed.
	clockBound = 300 * time.Millisecond
	// clockTail is how long after the mending of a clock the clock's decisions may still show.
	clockTail = time.Second
)

// NewClocks returns the clock offsets that the faults caused.
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

// Off returns how far a deciding clock may have been behind or ahead at most between two instants.
func (c Clocks) Off(from, to history.Instant) (behind, ahead time.Duration) {
	for _, o := range c.off {
		if o.from <= to && from <= o.to {
			behind, ahead = max(behind, o.behind), max(ahead, o.ahead)
		}
	}
	return behind, ahead
}

// Earliest returns the first instant at which some clock may have shown a time: the true instant, or an earlier one by
// a clock that was ahead.
func (c Clocks) Earliest(reading history.Instant) history.Instant {
	first := reading
	for _, o := range c.off {
		if at := max(o.from, reading.Add(-o.ahead)); at <= o.to {
			first = min(first, at)
		}
	}
	return first
}

// lone returns by how much a clock is ahead that no other node checks.
func (o off) lone() time.Duration {
	if o.ahead > clockBound {
		return o.ahead
	}
	return 0
}

// leap is an instant at which the clocks of some nodes were set ahead.
type leap struct {
	at    history.Instant
	nodes []string
	lone  time.Duration // by how much a clock is ahead then that no other node checks; 0: others check it
}

// leaps returns the leaps by more than the given duration. A clock leaps when a fault sets it ahead, and when a clock
// that was behind is set right.
func (c Clocks) leaps(more time.Duration) []leap {
	var all []leap
	for i, o := range c.off {
		others := Clocks{slices.Concat(c.off[:i], c.off[i+1:])}
		if behind, _ := others.Off(o.from, o.from); behind+o.ahead > more {
			all = append(all, leap{at: o.from, nodes: o.nodes, lone: o.lone()})
		}
		if behind, _ := c.Off(o.mending, o.mending); o.mending != 0 && behind > more {
			all = append(all, leap{at: o.mending, nodes: o.nodes})
		}
	}
	return all
}
