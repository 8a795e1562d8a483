package clocks

import "time"

// own is this node's wall clock, held against its monotonic one.
type own struct {
	clock func() time.Time
	began time.Time // both clocks were as one then
	wall  time.Time
}

// reading is one look at the wall clock.
type reading struct {
	wall time.Time
	lead time.Duration // by how much more the wall clock has moved than the monotonic one: by how much it was set
}

func newOwn(clock func() time.Time) own {
	o := own{clock: clock}
	o.wall, o.began = o.both()
	return o
}

func (o own) read() reading {
	wall, at := o.both()
	return reading{wall: wall, lead: wall.Round(0).Sub(o.wall.Round(0)) - at.Sub(o.began)}
}

const (
	together = 100 * time.Microsecond // two looks this close are one
	looks    = 5
)

// both reads the two clocks. A process may be stopped between two readings; then it reads again.
func (o own) both() (wall, at time.Time) {
	for range looks {
		before := time.Now()
		wall, at = o.clock(), time.Now()
		if at.Sub(before) <= together {
			break
		}
	}
	return wall, at
}
