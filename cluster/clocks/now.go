package clocks

import (
	"context"
	"sync/atomic"
	"time"
)

// corrections keeps what was found out last about this node's clock.
type corrections struct {
	last atomic.Pointer[correction]
	// turn is of capacity 1 and full while the others are asked because the clock was set. A mutex would do, but who waits
	// for one stops the time of a simulation, in which the answers take time.
	turn chan struct{}
}

// correction is by how far the median of all clocks is ahead, if that is more than the bound; else 0.
type correction struct {
	lead time.Duration // of the own clock, when that was found out: it has been set if it is another one now
	by   time.Duration
	sure bool // enough clocks were known to say so
	at   time.Time
}

// steady: a lead that has changed by less is that of a clock that is kept right little by little.
const steady = 10 * time.Millisecond

// unsureFor is how long it stands that nothing is known, before a call asks again.
const unsureFor = 100 * time.Millisecond

func (c *correction) holds(now reading) bool {
	return c != nil && (now.lead-c.lead).Abs() <= steady && (c.sure || time.Since(c.at) < unsureFor)
}

// Now is the time to go by: this node's wall clock, or, while that is further than the bound from the median of the
// clocks that are known, the median's time. So a call that says `delay` gets what it means also through a node whose
// clock is wrong. When the clock was set, and until it has been compared, it asks the others before it answers, for a
// moment. It is not sure while no other clock is known, though there are others, or while of those that are known no
// majority keeps one time: what is told from then on may be wrong by anything.
func (c *Clocks) Now() (_ time.Time, sure bool) {
	now := c.own.read()
	known := c.corrections.last.Load()
	if !known.holds(now) {
		known = c.askAgain()
		now = c.own.read()
	}
	return now.wall.Add(known.by), known.sure
}

// Apart tells whether this clock is further than the bound from the median of all that are known, and how far.
func (c *Clocks) Apart() (time.Duration, bool) {
	known := c.corrections.last.Load()
	if !known.holds(c.own.read()) {
		known = c.askAgain()
	}
	return known.by, known.by != 0
}

// askAgain makes a round now. What was known of the others is not enough: a clock that has moved against the monotonic
// one was set, or the machine slept and it is the monotonic clock that stood still.
func (c *Clocks) askAgain() *correction {
	c.corrections.turn <- struct{}{}
	defer func() { <-c.corrections.turn }()
	if known := c.corrections.last.Load(); known.holds(c.own.read()) {
		return known // somebody else has asked meanwhile
	}
	ctx, cancel := context.WithTimeout(c.ctx, pingPatience)
	defer cancel()
	return c.round(ctx)
}

// round asks all, and corrects this clock by what they say. If it was set meanwhile, the correction does not hold.
func (c *Clocks) round(ctx context.Context) *correction {
	before := c.own.read()
	peers := c.cfg.Peers()
	c.forgetOthers(peers)
	began := time.Now()
	c.measureAll(ctx, peers)
	c.mark(before, began)
	found := &correction{lead: before.lead, at: time.Now()}
	found.by, found.sure = c.compare(before)
	c.corrections.last.Store(found)
	return found
}

// compare says by how much this clock is to be corrected, and whether enough clocks are known for that: more than half
// of them must bear each other out. The median alone does not do. Of two that are apart nobody can say which is right,
// nor with a third that is apart from both.
func (c *Clocks) compare(now reading) (by time.Duration, sure bool) {
	offsets := c.offsets(now)
	if len(offsets) == 1 {
		return 0, c.cfg.Alone()
	}
	if !c.together(offsets, len(offsets)) {
		return 0, false
	}
	if median := middle(offsets); median.Abs() > c.cfg.MaxOffset {
		return median, true
	}
	return 0, true
}

// mark notes which of those that were heard since some moment are apart from the median, if that is one to go by.
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
