package clocks

import "time"

// sample is one exchange. It measures the other clock against this process's monotonic clock, which cannot be set. So a
// sample gives the offset of the two wall clocks at any later time, also if this node's was set meanwhile.
type sample struct {
	ahead time.Duration // of the other clock against the monotonic one
	trip  time.Duration // round trip without the other node's own time
	at    time.Time     // time of the exchange
}

// sampleOf follows RFC 5905, section 8. It measures the round trip on monotonic clocks where the readings have one.
func sampleOf(asked reading, received, answered time.Time, returned reading) sample {
	there := received.Round(0).Sub(asked.wall.Round(0)) // Round(0) strips the monotonic reading
	back := answered.Round(0).Sub(returned.wall.Round(0))
	trip := returned.wall.Sub(asked.wall) - answered.Sub(received)
	return sample{ahead: asked.lead + there + (back-there)/2, trip: max(trip, 0), at: time.Now()}
}

// misleads reports whether the sample shows the two clocks further apart than the bound, although its own error may
// account for that.
func (s sample) misleads(now reading, bound time.Duration) bool {
	apart, wrong := (s.ahead - now.lead).Abs(), s.trip/2
	return wrong > bound && bound < apart && apart <= bound+wrong
}

// contradicts reports whether no offset is within the bounds of both samples: then the other clock was set in between.
func (s sample) contradicts(o sample) bool { return (s.ahead - o.ahead).Abs() > s.trip/2+o.trip/2 }

// history holds the last samples of one node, newest last. It is not empty after add.
type history struct {
	samples []sample
	apart   bool // from the median of all clocks, when the node was last heard
}

const kept = 8

func (h *history) add(s sample) {
	valid := h.samples[:0]
	for _, old := range h.samples {
		if !old.contradicts(s) {
			valid = append(valid, old)
		}
	}
	h.samples = append(valid, s)
	if len(h.samples) > kept {
		h.samples = h.samples[1:]
	}
}

func (h *history) best() sample {
	best := h.samples[0]
	for _, s := range h.samples {
		if s.trip < best.trip {
			best = s
		}
	}
	return best
}

// heard returns the time of the last sample.
func (h *history) heard() time.Time { return h.samples[len(h.samples)-1].at }

// isFresh reports whether the last sample is at most freshFor old. Clocks keep running, also those of nodes that died.
func (h *history) isFresh() bool { return time.Since(h.heard()) <= freshFor }

// counts reports whether the node's clock may help decide which others are right. A clock that was wrong when its node
// was last heard does not count for long: it may have been corrected since, and its old offset would confirm another
// clock that is wrong now.
func (h *history) counts() bool {
	return h.isFresh() && (!h.apart || time.Since(h.heard()) <= wrongFor)
}

// wrongFor is a little more than the interval at which nodes ask each other.
const wrongFor = 1500 * time.Millisecond

// freshFor is how long a sample counts. Computers' clocks drift apart by some milliseconds in that time.
const freshFor = 30 * time.Second
