package clocks

import (
	"context"
	"sync/atomic"
	"time"
)

// corrections holds the last correction of this node's clock.
type corrections struct {
	last atomic.Pointer[correction]
	// turn has capacity 1 and is full while a goroutine asks the others because the clock was set. A mutex would not do
	// in tests: a goroutine that waits for one stops the time of a simulation, in which answers take time.
	turn chan struct{}
}

// correction is the result of comparing this node's clock with the others: by how much the median of all clocks is
// ahead if that is more than the bound, else 0.
type correction struct {
	lead time.Duration // lead of this node's clock in the comparison; a different lead now means that the clock was set
	by   time.Duration
	sure bool // enough clocks were known
	at   time.Time
}

// steady is the change of lead below which a clock counts as slewed, not set.
const steady = 10 * time.Millisecond

// unsureFor is how long an unsure correction holds before a call asks again.
const unsureFor = 100 * time.Millisecond

func (c *correction) holds(now reading) bool {
	return c != nil && (now.lead-c.lead).Abs() <= steady && (c.sure || time.Since(c.at) < unsureFor)
}

// Now returns the time to use: this node's wall clock, or the median's time while the wall clock is further than the
// bound from the median of the known clocks. So a call with a `delay` gets the right instant also from a node whose
// clock is wrong. After the clock was set, Now asks the other nodes first, for at most pingPatience.
//
// Now is not sure while no other clock is known though there are other nodes, or while no majority of the known clocks
// keeps one time. The time that it then returns may be wrong by anything.
func (c *Clocks) Now() (_ time.Time, sure bool) {
	now := c.own.read()
	known := c.corrections.last.Load()
	if !known.holds(now) {
		known = c.askAgain()
		now = c.own.read()
	}
	return now.wall.Add(known.by), known.sure
}

// Apart returns by how much the median of all known clocks is ahead, and true, if that is more than the bound.
func (c *Clocks) Apart() (time.Duration, bool) {
	known := c.corrections.last.Load()
	if !known.holds(c.own.read()) {
		known = c.askAgain()
	}
	return known.by, known.by != 0
}

// askAgain makes a round now. The old measurements are not enough: either the wall clock was set, or the machine slept
// and the monotonic clock stood still.
func (c *Clocks) askAgain() *correction {
	c.corrections.turn <- struct{}{}
	defer func() { <-c.corrections.turn }()
	if known := c.corrections.last.Load(); known.holds(c.own.read()) {
		return known // another goroutine has asked meanwhile
	}
	ctx, cancel := context.WithTimeout(c.ctx, pingPatience)
	defer cancel()
	return c.round(ctx)
}

// round asks all peers, and corrects this node's clock by their answers. The correction does not hold if the clock was
// set meanwhile.
func (c *Clocks) round(ctx context.Context) *correction {
	before := c.own.read()
	peers := c.cfg.Directory.Nodes()
	c.forgetOthers(peers)
	began := time.Now()
	c.measureAll(ctx, peers)
	c.mark(before, began)
	found := &correction{lead: before.lead, at: time.Now()}
	found.by, found.sure = c.compare(before)
	c.corrections.last.Store(found)
	return found
}

// compare returns the correction of this node's clock, and whether enough clocks are known for it: more than half of
// them must be near each other. The median alone is not enough. Neither of two clocks that are apart proves the other
// wrong, even with a third that is apart from both.
func (c *Clocks) compare(now reading) (by time.Duration, sure bool) {
	offsets := c.offsets(now)
	if len(offsets) == 1 {
		return 0, c.cfg.Directory.IsAlone()
	}
	if !c.together(offsets, len(offsets)) {
		return 0, false
	}
	if median := middle(offsets); median.Abs() > c.cfg.MaxOffset {
		return median, true
	}
	return 0, true
}

// mark records which peers heard since an instant are apart from the median, if a majority of clocks keep one time.
func (c *Clocks) mark(now reading, since time.Time) {
	offsets := c.offsets(now)
	if len(offsets) < 3 || !c.together(offsets, len(offsets)) {
		return
	}
	median := middle(offsets)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.peers {
		if !h.heard().Before(since) {
			h.apart = (h.best().ahead - now.lead - median).Abs() > c.cfg.MaxOffset
		}
	}
}
