package sim

import (
	"sync"
	"time"
)

// clock is one node's wall clock. The monotonic one is the bubble's, and right on every node.
type clock struct {
	mu    sync.Mutex
	since time.Time     // when ahead and ppm were set
	ahead time.Duration // then
	ppm   float64       // how much it gains
}

func newClock() *clock { return &clock{since: time.Now()} }

// now reads it.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Add(c.offset(now)).Round(0)
}

func (c *clock) offset(now time.Time) time.Duration {
	return c.ahead + time.Duration(float64(now.Sub(c.since))*c.ppm/1e6)
}

// set makes it go on so far ahead of true time, gaining ppm.
func (c *clock) set(ahead time.Duration, ppm float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.ahead, c.ppm = time.Now(), ahead, ppm
}
