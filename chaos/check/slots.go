package check

import (
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// owners holds, by slot, the shards that were seen to own it. All tasks of a slot move to another shard together.
type owners [history.Slots][]uint32

func (o *owners) see(slot, shard uint32) {
	if shard != 0 && !slices.Contains(o[slot], shard) {
		o[slot] = append(o[slot], shard)
	}
}

// learnShards gives each task the shards of its slot. Answers of batches name no shard, for instance.
func (x *Index) learnShards() {
	for _, r := range x.h.Owners {
		for slot := r.First; slot < r.End; slot++ {
			x.owners.see(slot, r.Shard)
		}
	}
	for _, t := range x.attempted() {
		t.shards = x.owners[t.slot]
		if t.shard == 0 && len(t.shards) == 1 {
			t.shard = t.shards[0]
		}
	}
}

// anywhere are the shards of a task of which none is known.
var anywhere = []uint32{0}

// known returns the shards that may have held the task, and 0 alone if none is known.
func (t *task) known() []uint32 {
	if len(t.shards) == 0 {
		return anywhere
	}
	return t.shards
}

// heldBy reports whether one of the shards may have held the task.
func (t *task) heldBy(shards []uint32) bool {
	return slices.ContainsFunc(t.shards, func(shard uint32) bool { return slices.Contains(shards, shard) })
}

// born returns the instants at which shards were first seen to own slots. A record without owners has none.
func (x *Index) born() map[uint32]history.Instant {
	born := map[uint32]history.Instant{}
	for _, o := range x.h.Owners {
		if _, ok := born[o.Shard]; !ok {
			born[o.Shard] = o.At
		}
	}
	return born
}
