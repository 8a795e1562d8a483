package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// opening is slots that the target of a move has opened, as one of its replicas has applied.
type opening struct {
	shard uint32
	part  *fsmpb.SlotState
}

// watchOwners checks while slots move that no slot is open in two shards: once a replica of a move's target has opened
// the slots, the source must serve no linearizable read of them.
func (s *splitter) watchOwners() {
	w, rng := s.world, s.world.rng("owners", 0)
	moved := map[uint64]bool{} // moves whose sources are known to refuse reads
	pause := func() time.Duration { return load.Between(rng, 5*time.Millisecond, 500*time.Millisecond) }
	w.whileShifting(pause, func(*clusterpb.ControlState) {
		for _, o := range w.openings() {
			if !moved[o.part.Move] {
				moved[o.part.Move] = w.refuses(o)
			}
		}
	})
}

// openings returns the slots that the replicas of the targets have opened.
func (w *World) openings() []opening {
	var all []opening
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			continue
		}
		for _, r := range p.all() {
			for _, part := range r.shard.Slots() {
				// A source that was unsealed has the epoch before the move.
				if part.Phase == fsmpb.SlotPhase_SLOT_PHASE_OPEN && part.Move > 0 && part.Epoch == part.Move {
					all = append(all, opening{r.id, part})
				}
			}
		}
	}
	return all
}

// refuses reports whether the source of a move is known to refuse reads of slots that the target has opened.
func (w *World) refuses(o opening) bool {
	source := w.leading(o.part.Shard)
	if source == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	_, err := source.Get(ctx, "", idIn(o.part.First), false)
	if err == nil && w.epochOf(o.part.First) == o.part.Move {
		w.problem("move %d: shard %d serves slot %d, and shard %d has opened it", o.part.Move, o.part.Shard,
			o.part.First, o.shard)
	}
	var moved *task.MovedError
	return errors.As(err, &moved)
}

// leading returns the leading replica of a shard, or nil.
func (w *World) leading(id uint32) *shard.Shard {
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			if s, err := p.shard(id); err == nil && s.IsLeader() {
				return s
			}
		}
	}
	return nil
}

// rangeOf returns the range of the slot map that has a slot.
func (w *World) rangeOf(slot uint32) *clusterpb.SlotRange {
	for _, r := range w.now().Slots {
		if slot < r.End {
			return r
		}
	}
	return nil
}

// shardOf returns the shard that holds an id.
func (w *World) shardOf(id string) uint32 { return w.rangeOf(task.Slot("", id)).Shard }

func (w *World) epochOf(slot uint32) uint64 { return w.rangeOf(slot).Epoch }

// idIn returns an id in a slot.
func idIn(slot uint32) string { return idsBySlot()[slot] }

var idsBySlot = sync.OnceValue(func() map[uint32]string {
	ids := map[uint32]string{}
	for i := 0; len(ids) < task.Slots; i++ {
		id := fmt.Sprint("slot-", i)
		ids[task.Slot("", id)] = id
	}
	return ids
})

// judgeOwners checks at the end of a run that each slot is open in the shard that the slot map names, and in no other.
// A shard has no state for slots that never took part in a move.
func (w *World) judgeOwners() {
	for _, s := range w.now().Shards {
		leader := w.leading(s.Id)
		if leader == nil {
			w.problem("at the end shard %d has no leader", s.Id)
			continue
		}
		for _, part := range leader.Slots() {
			for slot := part.First; slot < part.End; slot++ {
				open, owns := part.Phase == fsmpb.SlotPhase_SLOT_PHASE_OPEN, w.rangeOf(slot).Shard == s.Id
				if open != owns {
					w.problem("at the end shard %d has %v, and the slot map gives slot %d to shard %d", s.Id, part, slot,
						w.rangeOf(slot).Shard)
					break
				}
			}
		}
	}
}
