package awake

import "time"

// meter adds up running time from readings of a clock that are meant to be a step apart.
type meter struct {
	step time.Duration
	last time.Time
	ran  time.Duration
}

// see adds the time since the last reading, and of a longer time than two steps only as much.
func (m *meter) see(now time.Time) {
	m.ran += min(max(now.Sub(m.last), 0), 2*m.step)
	m.last = now
}
