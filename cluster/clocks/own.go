package clocks

import "time"

// own measures this node's wall clock against its monotonic clock.
type own struct {
	clock func() time.Time
	began time.Time // monotonic time of the first reading, and wall its wall time: the lead is 0 then
	wall  time.Time
}

// reading is one reading of the wall clock.
type reading struct {
	wall time.Time
	lead time.Duration // by how much the wall clock has moved more than the monotonic one, that is, by how much it was set
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
	together = 100 * time.Microsecond // readings this close count as simultaneous
	looks    = 5
)

// both reads the two clocks. It reads again if the process was stopped between the two readings.
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
