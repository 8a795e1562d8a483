package cluster

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// slotMovesOf describes the moves of slots in a state, in their order.
func slotMovesOf(state *clusterpb.ControlState, shape *clusterpb.Shape, names *strings.Replacer) []view.SlotMove {
	var moves []view.SlotMove
	for _, m := range state.SlotMoves {
		p, wait := shape.GetSlots()[m.Number], shape.GetSlotsWait()[m.Number]
		v := view.SlotMove{
			Number: m.Number, From: m.From, To: m.To, State: nameOf(m.State, movePrefix), Step: p.GetStep(),
			Tries: int(max(m.Tries, wait.GetGivenUp())), TasksCopied: p.GetTasks(), BytesCopied: p.GetBytes(),
			Sealed: p.GetSealed(), Waits: names.Replace(wait.GetReason()),
		}
		for _, r := range m.Ranges {
			v.Slots += int(r.End - r.First)
		}
		moves = append(moves, v)
	}
	return moves
}

// addSlots adds a move of slots to an operation, and returns the number of slots whose tasks are copied. The tasks of a
// shard are taken to be spread evenly over its slots.
func (v *View) addSlots(o *view.Operation, m view.SlotMove, state clusterpb.SlotMoveState) (copied float64) {
	if m.Tries > 0 && state != clusterpb.SlotMoveState_SLOT_MOVE_STATE_OPENING {
		o.Waits = append(o.Waits, fmt.Sprintf("the move of %d slots from shard %d to shard %d was given up %d times and was "+
			"begun anew: %s", m.Slots, m.From, m.To, m.Tries,
			cmp.Or(m.Waits, "an earlier leader of the control group has logged why")))
	} else if m.Waits != "" {
		o.Waits = append(o.Waits, fmt.Sprintf("a step of the move of %d slots from shard %d to shard %d is taken again: %s",
			m.Slots, m.From, m.To, m.Waits))
	}
	o.TasksCopied += m.TasksCopied
	if state != clusterpb.SlotMoveState_SLOT_MOVE_STATE_COPYING {
		return 0 // the slots count as moved, or are to be copied anew
	}
	whole := bytesOf(v.shard(m.From), m.Slots)
	if whole == 0 {
		return 0
	}
	o.BytesLeft += whole - min(m.BytesCopied, whole)
	return float64(m.Slots) * min(float64(m.BytesCopied)/float64(whole), 1)
}

// shard returns a shard, or one without tasks and slots if there is none with this id.
func (v *View) shard(id uint32) view.Shard {
	for _, s := range v.Shards {
		if s.ID == id {
			return s
		}
	}
	return view.Shard{}
}

// bytesOf returns about the memory that the tasks of some slots of a shard take.
func bytesOf(s view.Shard, slots int) uint64 {
	owned := uint32(0)
	for _, r := range s.Slots {
		owned += r.End - r.First
	}
	if owned == 0 {
		return 0
	}
	return uint64(float64(s.Bytes) * min(float64(slots)/float64(owned), 1))
}
