package sim

import (
	"sync"
	"time"
)

// clock is the wall clock of one node. The monotonic clock is the bubble's, and right on every node.
type clock struct {
	mu    sync.Mutex
	since time.Time     // when ahead and ppm were set
	ahead time.Duration // lead over true time at since
	ppm   float64       // gain since then, in microseconds per second
}

func newClock() *clock { return &clock{since: time.Now()} }

// now returns the reading of the clock, without a monotonic part.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Add(c.offset(now)).Round(0)
}

func (c *clock) offset(now time.Time) time.Duration {
	return c.ahead + time.Duration(float64(now.Sub(c.since))*c.ppm/1e6)
}

// set moves the clock ahead of true time by the given duration, and lets it gain ppm from now on.
func (c *clock) set(ahead time.Duration, ppm float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.ahead, c.ppm = time.Now(), ahead, ppm
}
