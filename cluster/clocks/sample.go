package clocks

import "time"

// sample is one exchange. The other clock is held against this process's monotonic clock, which nobody sets: so a
// sample says at any later time how far apart the two wall clocks are, also when this one was set meanwhile.
type sample struct {
	ahead time.Duration // of the other clock, against the monotonic one
	trip  time.Duration // there and back, without the other node's own time
	at    time.Time     // when it was taken
}

// sampleOf follows RFC 5905, section 8. The round trip is taken on monotonic clocks where the readings have one.
func sampleOf(asked reading, received, answered time.Time, returned reading) sample {
	there := received.Round(0).Sub(asked.wall.Round(0)) // Round(0) leaves the wall clock alone to compare
	back := answered.Round(0).Sub(returned.wall.Round(0))
	trip := returned.wall.Sub(asked.wall) - answered.Sub(received)
	return sample{ahead: asked.lead + there + (back-there)/2, trip: max(trip, 0), at: time.Now()}
}

// misleads tells whether by the sample the two clocks seem to be further apart than the bound, and it is itself perhaps
// wrong by more than that, so that they need not be.
func (s sample) misleads(now reading, bound time.Duration) bool {
	apart, wrong := (s.ahead - now.lead).Abs(), s.trip/2
	return wrong > bound && bound < apart && apart <= bound+wrong
}

// contradicts tells whether no offset is within the bounds of both: the other clock was set in between.
func (s sample) contradicts(o sample) bool { return (s.ahead - o.ahead).Abs() > s.trip/2+o.trip/2 }

// history is the last samples of one node, newest last. It is never empty once add was called.
type history struct {
	samples []sample
	apart   bool // from the median of all clocks, when it was last heard
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

// heard is when the node last told its time.
func (h *history) heard() time.Time { return h.samples[len(h.samples)-1].at }

// isFresh tells whether the node was heard a short time ago: clocks go on, also those of nodes that died.
func (h *history) isFresh() bool { return time.Since(h.heard()) <= freshFor }

// counts tells whether what is known of the clock may decide which others are right. Of a clock that was wrong when it
// was last heard it is not known for how long it stays so: it may have been set right since, and would bear out another
// that is wrong now.
func (h *history) counts() bool {
	return h.isFresh() && (!h.apart || time.Since(h.heard()) <= wrongFor)
}

// wrongFor is a little more than the interval at which nodes ask each other.
const wrongFor = 1500 * time.Millisecond

// freshFor is how long what a node's clock said is held to be true. Clocks of computers part by some milliseconds in
// it.
const freshFor = 30 * time.Second
