package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// SlotRange is a range of slots: see slots.Range.
type SlotRange = slots.Range

// SlotState is the part that a slot plays in moves: see slots.State.
type SlotState = slots.State

// The phases of a slot: see fsmpb.SlotPhase.
const (
	open   = fsmpb.SlotPhase_SLOT_PHASE_OPEN
	sealed = fsmpb.SlotPhase_SLOT_PHASE_SEALED
	coming = fsmpb.SlotPhase_SLOT_PHASE_COMING
	ready  = fsmpb.SlotPhase_SLOT_PHASE_READY
	gone   = fsmpb.SlotPhase_SLOT_PHASE_GONE
)

func commandOfMove(op any) command {
	switch op.(type) {
	case *fsmpb.Command_ExpectSlots:
		return command{apply: (*applier).applyExpectSlots}
	case *fsmpb.Command_ImportTasks:
		return command{apply: (*applier).applyImportTasks}
	case *fsmpb.Command_ReadySlots:
		return command{apply: (*applier).applyReadySlots}
	case *fsmpb.Command_OpenSlots:
		return command{apply: (*applier).applyOpenSlots}
	case *fsmpb.Command_AbandonSlots:
		return command{apply: (*applier).applyAbandonSlots}
	case *fsmpb.Command_SealSlots:
		return command{apply: (*applier).applySealSlots}
	case *fsmpb.Command_UnsealSlots:
		return command{apply: (*applier).applyUnsealSlots}
	case *fsmpb.Command_DropSlots:
		return command{apply: (*applier).applyDropSlots}
	}
	return command{}
}

// shut answers a command on a task whose slot is not open.
func (a *applier) shut(at store.Place) *fsmpb.Result {
	s := a.store.Slots.At(at.Slot())
	result := &fsmpb.Result{Code: fsmpb.Code_CODE_MOVING, Revision: s.Epoch, Task: &fsmpb.Task{Shard: s.Shard}}
	switch s.Phase {
	case coming, ready:
		result.Task.Shard = a.shard
	case gone:
		result.Code = fsmpb.Code_CODE_MOVED
	}
	return result
}

// refusedMove refuses a command of a move.
func refusedMove(detail string) *fsmpb.Result {
	return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Field: "move", Detail: detail}
}

func invalidRanges(err error) *fsmpb.Result {
	return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "ranges", Detail: err.Error()}
}

func (a *applier) applyExpectSlots(r request) *fsmpb.Result {
	op := r.GetExpectSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case tookPart(&a.store.Slots, ranges, op.Move) && len(a.store.Slots.Of(op.Move, gone)) == 0:
		return done()
	case a.store.Moves.Coming() != 0:
		return refusedMove("another move into the shard is under way")
	case !mayBegin(&a.store.Slots, ranges, op.Move):
		return refusedMove("the slots took part in a later move, or take part in one")
	case a.holds(ranges):
		return refusedMove("the shard owns the slots or has tasks in them")
	}
	a.store.Moves.Expect(ranges, SlotState{Phase: coming, Move: op.Move, Shard: op.From, Epoch: op.Epoch}, op.Fresh)
	return done()
}

// tookPart reports whether all slots of the ranges took part in a move last.
func tookPart(t *slots.Table, ranges []SlotRange, move uint64) bool {
	for p := range t.In(ranges) {
		if p.Move != move {
			return false
		}
	}
	return move > 0
}

// mayBegin reports whether a move is newer than all that the slots took part in, and none of these is under way.
func mayBegin(t *slots.Table, ranges []SlotRange, move uint64) bool {
	for p := range t.In(ranges) {
		if p.Move >= move || p.Phase != open && p.Phase != gone {
			return false
		}
	}
	return true
}

// holds reports whether the shard is known to own a slot of the ranges, or has a task there.
func (a *applier) holds(ranges []SlotRange) bool {
	for p := range a.store.Slots.In(ranges) {
		if p.Phase == open && p.Move > 0 || a.store.Moves.HasTasks(p.Range) {
			return true
		}
	}
	return false
}

// applyImportTasks adds copies of tasks. It stops at a task that it refuses.
func (a *applier) applyImportTasks(r request) *fsmpb.Result {
	op := r.GetImportTasks()
	if a.store.Moves.Coming() != op.Move || op.Move == 0 {
		return refusedMove("is not the one under way")
	}
	for _, name := range op.Gone {
		a.store.Moves.DropCopy(name.GetNamespace(), name.GetId())
	}
	for _, data := range op.Tasks {
		if err := a.store.Moves.Copy(data); err != nil {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "tasks", Detail: err.Error()}
		}
	}
	return done()
}

func (a *applier) applyReadySlots(r request) *fsmpb.Result {
	op := r.GetReadySlots()
	ranges := a.store.Slots.Of(op.Move, coming)
	if a.store.Moves.Coming() != op.Move || op.Move == 0 {
		if len(a.store.Slots.Of(op.Move, open)) > 0 {
			return done() // opened already
		}
		return refusedMove("is not the one under way")
	}
	if len(ranges) == 0 {
		return done()
	}
	if tasks, sum := a.store.Moves.Copied(); tasks != op.Tasks || sum != op.Sum {
		return refusedMove("the copies differ from the tasks of the source")
	}
	a.store.Moves.Inherit(op.Number, op.Inherited)
	setPhase(&a.store.Slots, ranges, ready)
	return done()
}

func setPhase(t *slots.Table, ranges []SlotRange, phase fsmpb.SlotPhase) {
	for _, r := range ranges {
		s := t.At(r.First)
		s.Phase = phase
		t.Set(r, s)
	}
}

func (a *applier) applyOpenSlots(r request) *fsmpb.Result {
	op := r.GetOpenSlots()
	if len(a.store.Slots.Of(op.Move, ready)) == 0 {
		if len(a.store.Slots.Of(op.Move, open)) > 0 {
			return done() // opened already
		}
		return refusedMove("has no slots that are ready")
	}
	more := a.store.Moves.Open(op.Move, ready, int(op.Max), a.leaseUntil(op.LeaseMs))
	if !more {
		a.store.Moves.Arrived()
		a.store.TrimTombstones()
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// leaseUntil returns the earliest end of a lease that runs when its slot opens. The wheel runs ahead of the clock.
func (a *applier) leaseUntil(leaseMs int64) int64 {
	if leaseMs <= 0 {
		return 0
	}
	return a.store.NowMs + a.store.HorizonMs + leaseMs
}

func (a *applier) applyAbandonSlots(r request) *fsmpb.Result {
	op := r.GetAbandonSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case op.Move == 0 || len(a.store.Slots.Of(op.Move, open)) > 0:
		return refusedMove("has slots that are open")
	case mayBegin(&a.store.Slots, ranges, op.Move) && !a.holds(ranges):
		mark(&a.store.Slots, ranges, SlotState{Phase: gone, Move: op.Move, Shard: op.From, Epoch: op.Epoch - 1})
		return done()
	case a.store.Moves.Coming() != op.Move:
		return done()
	}
	giveBack(&a.store.Slots, a.store.Slots.Of(op.Move, coming))
	giveBack(&a.store.Slots, a.store.Slots.Of(op.Move, ready))
	more := a.store.Moves.DropTasks(a.store.Slots.Of(op.Move, gone), int(op.Max))
	if !more {
		a.store.Moves.Arrived()
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// mark gives slots the state after a move that was begun and given up, although its first step has not come. The step
// is refused if it comes late.
func mark(t *slots.Table, ranges []SlotRange, s SlotState) {
	for _, r := range ranges {
		t.Set(r, s)
	}
}

// giveBack makes the source the owner of slots again, in the epoch before the move.
func giveBack(t *slots.Table, ranges []SlotRange) {
	for _, r := range ranges {
		s := t.At(r.First)
		s.Phase, s.Epoch = gone, s.Epoch-1
		t.Set(r, s)
	}
}

func (a *applier) applySealSlots(r request) *fsmpb.Result {
	op := r.GetSealSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case tookPart(&a.store.Slots, ranges, op.Move):
		if len(a.store.Slots.Of(op.Move, open)) > 0 {
			return refusedMove("was unsealed")
		}
		return done()
	case !mayBegin(&a.store.Slots, ranges, op.Move) || !owns(&a.store.Slots, ranges):
		return refusedMove("the slots took part in a later move, or take part in one, or are not the shard's own")
	}
	a.store.Moves.Seal(ranges, SlotState{Phase: sealed, Move: op.Move, Shard: op.To, Epoch: op.Epoch})
	return done()
}

// owns reports whether all slots of the ranges are open.
func owns(t *slots.Table, ranges []SlotRange) bool {
	for p := range t.In(ranges) {
		if p.Phase != open {
			return false
		}
	}
	return true
}

func (a *applier) applyUnsealSlots(r request) *fsmpb.Result {
	op := r.GetUnsealSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case op.Move == 0 || len(a.store.Slots.Of(op.Move, gone)) > 0:
		return refusedMove("has given its slots away")
	case mayBegin(&a.store.Slots, ranges, op.Move) && owns(&a.store.Slots, ranges):
		mark(&a.store.Slots, ranges, SlotState{Phase: open, Move: op.Move, Shard: op.To, Epoch: op.Epoch - 1})
		return done()
	case len(a.store.Slots.Of(op.Move, sealed)) == 0:
		return done()
	}
	more := a.store.Moves.Open(op.Move, sealed, int(op.Max), a.leaseUntil(op.LeaseMs))
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

func (a *applier) applyDropSlots(r request) *fsmpb.Result {
	op := r.GetDropSlots()
	if op.Move == 0 || a.store.Moves.Coming() == op.Move || len(a.store.Slots.Of(op.Move, open)) > 0 {
		return refusedMove("has slots that are open or coming")
	}
	a.drops.Add(1)
	setPhase(&a.store.Slots, a.store.Slots.Of(op.Move, sealed), gone)
	more := a.store.Moves.DropTasks(a.store.Slots.Of(op.Move, gone), int(op.Max))
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}
