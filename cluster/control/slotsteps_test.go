package control

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// drawApply applies an entry. Each leader may propose the entry of its look, so the entry is applied twice: the second
// time changes nothing, or is refused.
func drawApply(t *rapid.T, s *clusterpb.ControlState, e *clusterpb.ControlEntry) *clusterpb.ControlState {
	e.Version = Version
	data, err := proto.Marshal(e)
	assert.NoError(t, err)
	next, _, err := apply(s, data)
	assert.NoError(t, err, "%v", e)
	again, _, err := apply(next, data)
	if err != nil && !errors.Is(err, ErrRefused) || !proto.Equal(next, again) {
		t.Fatalf("%v, twice: %v", e, err)
	}
	return next
}

// drawOperation plans an operation on slots as the leader does.
func drawOperation(t *rapid.T, s *clusterpb.ControlState) *clusterpb.Operation {
	op := &clusterpb.Operation{Id: "op", BeganMs: 1}
	shards := uint32(len(s.Shards))
	switch op.Kind = rapid.SampledFrom([]clusterpb.OperationKind{splitShard, moveSlots, balance}).Draw(t, "kind"); op.Kind {
	case splitShard:
		op.Shard = rapid.Uint32Range(1, shards).Draw(t, "shard")
	case moveSlots:
		first := rapid.Uint32Range(0, task.Slots-1).Draw(t, "first")
		end := rapid.Uint32Range(first+1, task.Slots).Draw(t, "end")
		op.Slots, op.Shard = []*fsmpb.SlotRange{{First: first, End: end}}, rapid.Uint32Range(1, shards).Draw(t, "to")
	default:
		op.Shards = rapid.Uint32Range(shards, shards+14).Draw(t, "shards")
	}
	aims, err := planSlots(s, op)
	if err != nil {
		t.Skip(err)
	}
	op.Aims, op.Total = aims, SlotsLeft(s, &clusterpb.Operation{Aims: aims})
	return op
}

// turn decides on a move, or ends one, as its driver would.
func turn(t *rapid.T, s *clusterpb.ControlState) *clusterpb.ControlState {
	if len(s.SlotMoves) == 0 {
		return s
	}
	m := rapid.SampledFrom(s.SlotMoves).Draw(t, "move")
	if m.State == copying {
		to := rapid.SampledFrom([]clusterpb.SlotMoveState{opening, opening, givingUp}).Draw(t, "decision")
		return drawApply(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_TurnMove{
			TurnMove: &clusterpb.TurnMove{Number: m.Number, State: to},
		}})
	}
	return drawApply(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndMove{
		EndMove: &clusterpb.EndMove{Number: m.Number, Again: rapid.Bool().Draw(t, "again")},
	}})
}

// Operations on slots reach their aim by looks at the state alone, also when moves are given up on the way. A balance
// leaves each shard with as many slots as any other, or one more or less.
func TestSlotOperationsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := twoShards()
		for range rapid.IntRange(1, 3).Draw(t, "operations") {
			op := drawOperation(t, s)
			s = drawApply(t, s, begin(op))
			for left := 3000; !HaveMoved(s, op); left-- {
				if left == 0 {
					t.Fatalf("%v does not end: %v, moves %v", op, s.Slots, s.SlotMoves)
				}
				if next := nextMove(s, op); next.entry != nil {
					s = drawApply(t, s, next.entry)
				} else if len(s.SlotMoves) == 0 {
					t.Fatalf("%v waits: %q", op, next.waits)
				}
				checkSlotMap(t, s)
				checkParts(t, s)
				s = turn(t, s)
			}
			s = drawApply(t, s, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_End{End: &clusterpb.End{Id: "op", EndedMs: 2}}})
			s.Operations = nil
			checkArrived(t, s, op)
		}
	})
}

// checkParts checks that few moves are under way, and each shard takes part in one at most.
func checkParts(t *rapid.T, s *clusterpb.ControlState) {
	parts := make(map[uint32]bool)
	for _, m := range s.SlotMoves {
		if parts[m.From] || parts[m.To] || len(s.SlotMoves) > slotMovesAtOnce {
			t.Fatalf("under way: %v", s.SlotMoves)
		}
		parts[m.From], parts[m.To] = true, true
	}
}

func checkArrived(t *rapid.T, s *clusterpb.ControlState, op *clusterpb.Operation) {
	counts := make([]uint32, 0, len(s.Shards))
	for _, shard := range s.Shards {
		counts = append(counts, owned(s.Slots, shard.Id))
	}
	switch {
	case SlotsLeft(s, op) != 0:
		t.Fatalf("%v has ended, and the slot map is %v", op, s.Slots)
	case op.Kind == balance && (len(counts) != int(op.Shards) || slices.Max(counts)-slices.Min(counts) > 1):
		t.Fatalf("%v has ended, and the shards own %v slots", op, counts)
	}
}

// A balance from three shards to twelve moves each slot at most once, in one move to each new shard.
func TestBalanceMovesEachSlotOnce(t *testing.T) {
	s := &clusterpb.ControlState{Slots: []*clusterpb.SlotRange{
		{End: 1366, Shard: 1}, {First: 1366, End: 2731, Shard: 2}, {First: 2731, End: 4096, Shard: 3},
	}}
	for range 3 {
		s.Shards = append(s.Shards, &clusterpb.Shard{Id: uint32(len(s.Shards)) + 1, Replicas: []string{"a"}})
	}
	op := &clusterpb.Operation{Kind: balance, Shards: 12}
	aims, err := planSlots(s, op)
	assert.NoError(t, err)
	op.Aims = aims
	moves := plannedMoves(s, op)
	if left := SlotsLeft(s, op); len(moves) != 9 || left != 1024+2*1023 {
		t.Errorf("%d slots in the moves %v", left, moves)
	}
	for i, m := range moves {
		if m.Action != "split" || m.Shard != uint32(i)+4 || m.Slots < 341 || m.Slots > 342 {
			t.Errorf("move %d is %v", i, m)
		}
	}
}

// One operation on slots is under way at a time. It can be stopped, and begins no more moves then.
func TestSlotOperationsFollowEachOther(t *testing.T) {
	s := twoShards()
	plan := func(op *clusterpb.Operation) *clusterpb.Operation {
		t.Helper()
		aims, err := planSlots(s, op)
		assert.NoError(t, err)
		op.Aims = aims
		return op
	}
	first := plan(&clusterpb.Operation{Id: "1", Kind: balance, Shards: 4, BeganMs: 1})
	s = mustApply(t, s, begin(first))
	s = mustApply(t, s, begin(plan(&clusterpb.Operation{Id: "again", Kind: balance, Shards: 4, BeganMs: 1})))
	second := plan(&clusterpb.Operation{Id: "2", Kind: splitShard, Shard: 1, BeganMs: 1})
	if _, _, err := apply(s, marshal(t, begin(second))); !errors.Is(err, ErrRefused) || FindOperation(s, "again") != nil {
		t.Errorf("a second operation: %v, %v", err, s.Operations)
	}
	s = mustApply(t, s, nextMove(s, first).entry)
	s = mustApply(t, s, begin(&clusterpb.Operation{Id: "stop", Kind: keepSlots, BeganMs: 2}))
	if old := FindOperation(s, "1"); old.State != stopped || old.EndedMs == 0 || len(s.SlotMoves) != 1 {
		t.Errorf("%v, moves %v", old, s.SlotMoves)
	}
	look := look{state: s}
	if next, err := look.shift(); err != nil || next.entry != nil || !look.isDone(FindOperation(s, "stop")) {
		t.Errorf("after the stop: %+v, %v", next, err)
	}
}

// An operation on slots that could not end is refused.
func TestUnfitSlotOperations(t *testing.T) {
	s := twoShards()
	for name, op := range map[string]*clusterpb.Operation{
		"no shard":     {Kind: splitShard, Shard: 3},
		"no target":    {Kind: moveSlots, Shard: 9, Slots: []*fsmpb.SlotRange{{End: 1}}},
		"no slots":     {Kind: moveSlots, Shard: 1},
		"fewer shards": {Kind: balance, Shards: 1},
		"too many":     {Kind: balance, Shards: MaxShards + 1},
	} {
		aims, err := planSlots(s, op)
		assert.Error(t, err, "%s: %v", name, aims)
	}
	for _, aim := range []*clusterpb.SlotRange{{End: 4097, Shard: 1}, {First: 2, End: 2, Shard: 1}, {End: 1}} {
		op := &clusterpb.Operation{Id: "1", Kind: balance, Aims: []*clusterpb.SlotRange{aim}}
		_, _, err := apply(s, marshal(t, begin(op)))
		assert.ErrorIs(t, err, ErrRefused, "%v", aim)
	}
}
