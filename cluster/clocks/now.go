package clocks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// corrections keeps what was found out last about this node's clock.
type corrections struct {
	last atomic.Pointer[correction]
	turn sync.Mutex // held while the others are asked because the clock was set
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
// moment. It is not sure while no other clock is known, though there are others, or only one, and that one is apart:
// what is told from then on may be wrong by anything.
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
	c.corrections.turn.Lock()
	defer c.corrections.turn.Unlock()
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
	c.measureAll(ctx, peers)
	found := &correction{lead: before.lead, at: time.Now()}
	found.by, found.sure = c.compare(before)
	c.corrections.last.Store(found)
	return found
}

// compare says by how much this clock is to be corrected, and whether enough clocks are known for that. Of two that are
// apart nobody can say which is right; two that are near bear each other out.
func (c *Clocks) compare(now reading) (by time.Duration, sure bool) {
	offsets := c.offsets(now)
	switch median := middle(offsets); {
	case len(offsets) > 2 && median.Abs() > c.cfg.MaxOffset:
		return median, true
	case len(offsets) == 2:
		return 0, (offsets[1] - offsets[0]) <= c.cfg.MaxOffset
	}
	return 0, len(offsets) > 2 || c.cfg.Alone()
}
