package quota

import "time"

// known is an owner's knowledge of the holders of one level. It gives silent holders the use that they may have.
type known struct {
	bounds map[string]bound
	silent map[string]time.Time // holders of unknown use, with the time since which they do not answer
}

// bound is the most that a holder has since its last answer.
type bound struct {
	n      int64 // its ceiling, or its use if that is more
	weight int64 // of the holder at that time: another one means that tasks have moved
}

func newKnown() known { return known{bounds: map[string]bound{}, silent: map[string]time.Time{}} }

// patientTrips is the time for which a silent holder may have used up the whole limit, in Trips. It is several
// elections long: a shard that is only between two leaders answers before.
const patientTrips = 30

// assume counts the holders that did not answer with the most that they may have. That is their bound. Without one, as
// for a new owner or after a move of tasks, it is the rest of the limit; after patience it is their part of the limit,
// so that a shard without a majority does not close a namespace for ever.
func (k known) assume(holders []Holder, parts []part, limit int64, now time.Time, patience time.Duration) {
	rest, weights := limit, int64(0)
	var waiting []int
	for i, h := range holders {
		weights += parts[i].weight
		if !parts[i].lost {
			delete(k.silent, h.ID)
		} else if b, ok := k.bounds[h.ID]; ok && b.weight == h.Weight {
			parts[i].held = b.n
		} else {
			waiting = append(waiting, i)
		}
		rest -= parts[i].held
	}
	for _, i := range waiting {
		since, ok := k.silent[holders[i].ID]
		if !ok {
			since = now
			k.silent[holders[i].ID] = since
		}
		if now.Sub(since) < patience {
			parts[i].held = max(rest, 0)
		} else {
			parts[i].held = partOf(limit, parts[i].weight, weights)
		}
		rest -= parts[i].held
	}
}

// learn keeps the bounds of the holders that answered in a round.
func (k known) learn(holders []Holder, parts []part) {
	for i, h := range holders {
		if !parts[i].lost {
			k.bounds[h.ID] = bound{n: max(parts[i].ceiling, parts[i].held), weight: h.Weight}
		}
	}
}
