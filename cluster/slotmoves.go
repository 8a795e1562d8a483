package cluster

import (
	"cmp"
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// SlotMoveView describes a move of slots from one shard to another.
type SlotMoveView struct {
	Number       uint64
	From, To     uint32 // shards
	Slots        uint32 // number of slots
	State        clusterpb.SlotMoveState
	Step         string // that is under way; empty: the control group's leader is not known
	Tries        uint32 // moves of the same slots that were given up before, as far as known
	Tasks, Bytes uint64 // that the target has copied; 0 if not known
	Sealed       bool   // calls on the slots wait for the target
	// Waits is the reason of the last failure, if the move has not gone on since or was begun anew; else empty.
	Waits string

	move *clusterpb.SlotMove
}

func slotMovesOf(state *clusterpb.ControlState, shape *clusterpb.Shape) []SlotMoveView {
	var moves []SlotMoveView
	for _, m := range state.SlotMoves {
		p, wait := shape.GetSlots()[m.Number], shape.GetSlotsWait()[m.Number]
		view := SlotMoveView{
			Number: m.Number, From: m.From, To: m.To, State: m.State, Step: p.GetStep(), Tries: max(m.Tries, wait.GetGivenUp()),
			Tasks: p.GetTasks(), Bytes: p.GetBytes(), Sealed: p.GetSealed(), Waits: wait.GetReason(), move: m,
		}
		for _, r := range m.Ranges {
			view.Slots += r.End - r.First
		}
		moves = append(moves, view)
	}
	return moves
}

// addSlots adds a move of slots to an operation, and returns the number of slots whose tasks are copied. The tasks of a
// shard are taken to be spread evenly over its slots.
func (o *OperationView) addSlots(m SlotMoveView, v *View) (copied float64) {
	if m.Tries > 0 && m.State != clusterpb.SlotMoveState_SLOT_MOVE_STATE_OPENING {
		o.Waits = append(o.Waits, fmt.Sprintf("the move of %d slots from shard %d to shard %d was given up %d times and was "+
			"begun anew: %s", m.Slots, m.From, m.To, m.Tries,
			cmp.Or(m.Waits, "an earlier leader of the control group has logged why")))
	} else if m.Waits != "" {
		o.Waits = append(o.Waits, fmt.Sprintf("a step of the move of %d slots from shard %d to shard %d is taken again: %s",
			m.Slots, m.From, m.To, m.Waits))
	}
	o.Tasks += m.Tasks
	if m.State != clusterpb.SlotMoveState_SLOT_MOVE_STATE_COPYING {
		return 0 // the slots count as moved, or are to be copied anew
	}
	whole := v.BytesOf(m.From, m.Slots)
	if whole == 0 {
		return 0
	}
	o.Left += whole - min(m.Bytes, whole)
	return float64(m.Slots) * min(float64(m.Bytes)/float64(whole), 1)
}

// BytesOf returns about the memory that the tasks of some slots of a shard take.
func (v *View) BytesOf(shard, slots uint32) uint64 {
	for _, s := range v.Shards {
		owned := uint32(0)
		for _, r := range s.Slots {
			owned += r.End - r.First
		}
		if s.ID == shard && owned > 0 {
			return uint64(float64(s.Bytes()) * min(float64(slots)/float64(owned), 1))
		}
	}
	return 0
}
