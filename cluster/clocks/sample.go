package clocks

import "time"

// sample is one exchange.
type sample struct {
	offset time.Duration // of the other clock, ahead of this one
	trip   time.Duration // there and back, without the other node's own time
}

// sampleOf follows RFC 5905, section 8. The round trip is taken on monotonic clocks where the readings have one.
func sampleOf(asked, received, answered, returned time.Time) sample {
	there := received.Round(0).Sub(asked.Round(0)) // Round(0) leaves the wall clock alone to compare
	back := answered.Round(0).Sub(returned.Round(0))
	trip := returned.Sub(asked) - answered.Sub(received)
	return sample{offset: there + (back-there)/2, trip: max(trip, 0)}
}

// contradicts tells whether no offset is within the bounds of both: one of the clocks was set in between.
func (s sample) contradicts(o sample) bool { return (s.offset - o.offset).Abs() > s.trip/2+o.trip/2 }

// history is the last samples of one node, newest last. It is never empty once add was called.
type history struct {
	samples []sample
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
