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
		return command{apply: (*Machine).applyExpectSlots}
	case *fsmpb.Command_ImportTasks:
		return command{apply: (*Machine).applyImportTasks}
	case *fsmpb.Command_ReadySlots:
		return command{apply: (*Machine).applyReadySlots}
	case *fsmpb.Command_OpenSlots:
		return command{apply: (*Machine).applyOpenSlots}
	case *fsmpb.Command_AbandonSlots:
		return command{apply: (*Machine).applyAbandonSlots}
	case *fsmpb.Command_SealSlots:
		return command{apply: (*Machine).applySealSlots}
	case *fsmpb.Command_UnsealSlots:
		return command{apply: (*Machine).applyUnsealSlots}
	case *fsmpb.Command_DropSlots:
		return command{apply: (*Machine).applyDropSlots}
	}
	return command{}
}

// shut answers a command on a task whose slot is not open.
func (m *Machine) shut(at store.Place) *fsmpb.Result {
	s := m.store.SlotAt(at)
	result := &fsmpb.Result{Code: fsmpb.Code_CODE_MOVING, Revision: s.Epoch, Task: &fsmpb.Task{Shard: s.Shard}}
	switch s.Phase {
	case coming, ready:
		result.Task.Shard = m.shard
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

func (m *Machine) applyExpectSlots(r request) *fsmpb.Result {
	op := r.GetExpectSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case m.tookPart(ranges, op.Move) && len(m.store.Slots.Of(op.Move, gone)) == 0:
		return done()
	case m.store.Coming() != 0:
		return refusedMove("another move into the shard is under way")
	case !m.mayBegin(ranges, op.Move):
		return refusedMove("the slots took part in a later move, or take part in one")
	case m.holds(ranges):
		return refusedMove("the shard owns the slots or has tasks in them")
	}
	m.store.Expect(ranges, SlotState{Phase: coming, Move: op.Move, Shard: op.From, Epoch: op.Epoch}, op.Fresh)
	return done()
}

// tookPart reports whether all slots of the ranges took part in a move last.
func (m *Machine) tookPart(ranges []SlotRange, move uint64) bool {
	for p := range m.store.Slots.In(ranges) {
		if p.Move != move {
			return false
		}
	}
	return move > 0
}

// mayBegin reports whether a move is newer than all that the slots took part in, and none of these is under way.
func (m *Machine) mayBegin(ranges []SlotRange, move uint64) bool {
	for p := range m.store.Slots.In(ranges) {
		if p.Move >= move || p.Phase != open && p.Phase != gone {
			return false
		}
	}
	return true
}

// holds reports whether the shard is known to own a slot of the ranges, or has a task there.
func (m *Machine) holds(ranges []SlotRange) bool {
	for p := range m.store.Slots.In(ranges) {
		if p.Phase == open && p.Move > 0 || m.store.HasTasks(p.Range) {
			return true
		}
	}
	return false
}

// applyImportTasks adds copies of tasks. It stops at a task that it refuses.
func (m *Machine) applyImportTasks(r request) *fsmpb.Result {
	op := r.GetImportTasks()
	if m.store.Coming() != op.Move || op.Move == 0 {
		return refusedMove("is not the one under way")
	}
	for _, name := range op.Gone {
		m.store.DropCopy(name.GetNamespace(), name.GetId())
	}
	for _, data := range op.Tasks {
		if err := m.store.Copy(data); err != nil {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "tasks", Detail: err.Error()}
		}
	}
	return done()
}

func (m *Machine) applyReadySlots(r request) *fsmpb.Result {
	op := r.GetReadySlots()
	ranges := m.store.Slots.Of(op.Move, coming)
	if m.store.Coming() != op.Move || op.Move == 0 {
		if len(m.store.Slots.Of(op.Move, open)) > 0 {
			return done() // opened already
		}
		return refusedMove("is not the one under way")
	}
	if len(ranges) == 0 {
		return done()
	}
	if tasks, sum := m.store.Copied(); tasks != op.Tasks || sum != op.Sum {
		return refusedMove("the copies differ from the tasks of the source")
	}
	m.store.Inherit(op.Number, op.Inherited)
	m.setPhase(ranges, ready)
	return done()
}

func (m *Machine) setPhase(ranges []SlotRange, phase fsmpb.SlotPhase) {
	for _, r := range ranges {
		s := m.store.Slots.At(r.First)
		s.Phase = phase
		m.store.Slots.Set(r, s)
	}
}

func (m *Machine) applyOpenSlots(r request) *fsmpb.Result {
	op := r.GetOpenSlots()
	if len(m.store.Slots.Of(op.Move, ready)) == 0 {
		if len(m.store.Slots.Of(op.Move, open)) > 0 {
			return done() // opened already
		}
		return refusedMove("has no slots that are ready")
	}
	more := m.store.Open(op.Move, ready, int(op.Max), m.leaseUntil(op.LeaseMs))
	if !more {
		m.store.Arrived()
		m.store.TrimTombstones()
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// leaseUntil returns the earliest end of a lease that runs when its slot opens. The wheel runs ahead of the clock.
func (m *Machine) leaseUntil(leaseMs int64) int64 {
	if leaseMs <= 0 {
		return 0
	}
	return m.store.NowMs + m.store.HorizonMs + leaseMs
}

func (m *Machine) applyAbandonSlots(r request) *fsmpb.Result {
	op := r.GetAbandonSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case op.Move == 0 || len(m.store.Slots.Of(op.Move, open)) > 0:
		return refusedMove("has slots that are open")
	case m.mayBegin(ranges, op.Move) && !m.holds(ranges):
		m.mark(ranges, SlotState{Phase: gone, Move: op.Move, Shard: op.From, Epoch: op.Epoch - 1})
		return done()
	case m.store.Coming() != op.Move:
		return done()
	}
	m.giveBack(m.store.Slots.Of(op.Move, coming))
	m.giveBack(m.store.Slots.Of(op.Move, ready))
	more := m.store.DropTasks(m.store.Slots.Of(op.Move, gone), int(op.Max))
	if !more {
		m.store.Arrived()
	}
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

// mark gives slots the state after a move that was begun and given up, although its first step has not come. The step
// is refused if it comes late.
func (m *Machine) mark(ranges []SlotRange, s SlotState) {
	for _, r := range ranges {
		m.store.Slots.Set(r, s)
	}
}

// giveBack makes the source the owner of slots again, in the epoch before the move.
func (m *Machine) giveBack(ranges []SlotRange) {
	for _, r := range ranges {
		s := m.store.Slots.At(r.First)
		s.Phase, s.Epoch = gone, s.Epoch-1
		m.store.Slots.Set(r, s)
	}
}

func (m *Machine) applySealSlots(r request) *fsmpb.Result {
	op := r.GetSealSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case m.tookPart(ranges, op.Move):
		if len(m.store.Slots.Of(op.Move, open)) > 0 {
			return refusedMove("was unsealed")
		}
		return done()
	case !m.mayBegin(ranges, op.Move) || !m.owns(ranges):
		return refusedMove("the slots took part in a later move, or take part in one, or are not the shard's own")
	}
	m.store.Seal(ranges, SlotState{Phase: sealed, Move: op.Move, Shard: op.To, Epoch: op.Epoch})
	return done()
}

// owns reports whether all slots of the ranges are open.
func (m *Machine) owns(ranges []SlotRange) bool {
	for p := range m.store.Slots.In(ranges) {
		if p.Phase != open {
			return false
		}
	}
	return true
}

func (m *Machine) applyUnsealSlots(r request) *fsmpb.Result {
	op := r.GetUnsealSlots()
	ranges, err := slots.RangesOf(op.Ranges)
	switch {
	case err != nil:
		return invalidRanges(err)
	case op.Move == 0 || len(m.store.Slots.Of(op.Move, gone)) > 0:
		return refusedMove("has given its slots away")
	case m.mayBegin(ranges, op.Move) && m.owns(ranges):
		m.mark(ranges, SlotState{Phase: open, Move: op.Move, Shard: op.To, Epoch: op.Epoch - 1})
		return done()
	case len(m.store.Slots.Of(op.Move, sealed)) == 0:
		return done()
	}
	more := m.store.Open(op.Move, sealed, int(op.Max), m.leaseUntil(op.LeaseMs))
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}

func (m *Machine) applyDropSlots(r request) *fsmpb.Result {
	op := r.GetDropSlots()
	if op.Move == 0 || m.store.Coming() == op.Move || len(m.store.Slots.Of(op.Move, open)) > 0 {
		return refusedMove("has slots that are open or coming")
	}
	m.drops.Add(1)
	m.setPhase(m.store.Slots.Of(op.Move, sealed), gone)
	more := m.store.DropTasks(m.store.Slots.Of(op.Move, gone), int(op.Max))
	return &fsmpb.Result{Code: fsmpb.Code_CODE_OK, More: more}
}
