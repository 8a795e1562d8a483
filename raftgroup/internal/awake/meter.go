package awake

import "time"

// meter sums running time from readings of a clock that should be one step apart.
type meter struct {
	step time.Duration
	last time.Time
	ran  time.Duration
}

// see adds the time since the last reading, at most two steps.
func (m *meter) see(now time.Time) {
	m.ran += min(max(now.Sub(m.last), 0), 2*m.step)
	m.last = now
}
