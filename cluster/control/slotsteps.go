package control

import (
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// slotMovesAtOnce is the number of moves that an operation has under way at a time. A shard takes part in one of them.
const slotMovesAtOnce = 4

// shift begins the next move of the operation on slots that is under way. The operation's record says where the slots
// should be, so any leader goes on from the slot map that it finds.
func (l look) shift() (step, error) {
	for _, op := range l.state.Operations {
		if op.State == clusterpb.OperationState_OPERATION_STATE_RUNNING && onSlots(op) {
			return nextMove(l.state, op), nil
		}
	}
	return step{}, nil
}

// NextSlotMove returns the entry that begins the next move of the operation on slots that is under way. It returns nil
// while no move can begin.
func NextSlotMove(s *clusterpb.ControlState) (*clusterpb.ControlEntry, error) {
	next, err := look{state: s}.shift()
	return next.entry, err
}

// nextMove returns the step that begins the next move of an operation. Without a step, moves are under way or none is
// left.
func nextMove(s *clusterpb.ControlState, op *clusterpb.Operation) step {
	busy := make(map[uint32]bool)
	for _, m := range s.SlotMoves {
		busy[m.From], busy[m.To] = true, true
	}
	waits := ""
	for _, t := range transfers(s.Slots, op.Aims) {
		if len(s.SlotMoves) >= slotMovesAtOnce || busy[t.from] || busy[t.to] {
			continue
		}
		entry, err := t.entry(s)
		if err == nil {
			return step{what: fmt.Sprintf("move %d slots from shard %d to shard %d", t.slots(), t.from, t.to), entry: entry}
		}
		waits = err.Error()
	}
	if len(s.SlotMoves) > 0 {
		return step{}
	}
	return step{waits: waits}
}

// entry returns the entry that begins a transfer, or the reason why it cannot begin now.
func (t *transfer) entry(s *clusterpb.ControlState) (*clusterpb.ControlEntry, error) {
	after := shallowCopy(s)
	if Shard(s, t.to) != nil {
		move := &clusterpb.MoveSlots{Ranges: t.ranges, From: t.from, To: t.to, Last: s.LastSlotMove}
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_MoveSlots{MoveSlots: move}}, applyMoveSlots(after, move)
	}
	if int(t.to) != len(s.Shards)+1 {
		return nil, fmt.Errorf("shard %d is made before shard %d", len(s.Shards)+1, t.to)
	}
	split := &clusterpb.Split{Shard: t.from, Shards: uint32(len(s.Shards)), Ranges: t.ranges}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Split{Split: split}}, applySplit(after, split)
}

// HaveMoved reports whether all slots of an operation are where they should be, and no move of them is under way.
func HaveMoved(s *clusterpb.ControlState, op *clusterpb.Operation) bool {
	return len(transfers(s.Slots, op.Aims)) == 0 && !slices.ContainsFunc(s.SlotMoves, func(m *clusterpb.SlotMove) bool {
		return Concerns(op, m)
	})
}

// Concerns reports whether a move of slots is a part of an operation.
func Concerns(op *clusterpb.Operation, m *clusterpb.SlotMove) bool {
	return slices.ContainsFunc(op.Aims, func(aim *clusterpb.SlotRange) bool {
		return aim.Shard == m.To && slices.ContainsFunc(m.Ranges, func(r *fsmpb.SlotRange) bool {
			return max(r.First, aim.First) < min(r.End, aim.End)
		})
	})
}

// PlanSlots sets where an operation brings slots. The error is a *task.ImpossibleError if the state does not allow it.
func PlanSlots(s *clusterpb.ControlState, op *clusterpb.Operation) error {
	aims, err := planSlots(s, op)
	if err == nil {
		op.Aims = aims
		err = applyBegin(shallowCopy(s), op)
	}
	if err != nil {
		return &task.ImpossibleError{Reason: err.Error()}
	}
	return nil
}

// judgeSlots plans an operation on slots, and returns its moves. The error is a *task.ImpossibleError if the operation
// could not end.
func (r *reconciler) judgeSlots(op *clusterpb.Operation) ([]*clusterpb.PlannedMove, error) {
	state := r.group.State()
	if err := PlanSlots(state, op); err != nil {
		return nil, err
	}
	for _, t := range transfers(state.Slots, op.Aims) {
		for _, id := range []uint32{t.from, t.to} {
			if s := Shard(state, id); s != nil && !r.hasMajority(s) {
				return nil, &task.ImpossibleError{Reason: fmt.Sprintf(
					"shard %d has no majority of its replicas up, so no slots can leave or join it; see `belfry doctor`", id)}
			}
		}
	}
	op.Total = SlotsLeft(state, op)
	return plannedMoves(state, op), nil
}
