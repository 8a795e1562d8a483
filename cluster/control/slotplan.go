package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// The kinds of operations on slots.
const (
	splitShard = clusterpb.OperationKind_OPERATION_KIND_SPLIT
	moveSlots  = clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS
	balance    = clusterpb.OperationKind_OPERATION_KIND_BALANCE
	keepSlots  = clusterpb.OperationKind_OPERATION_KIND_KEEP_SLOTS
)

// onSlots reports whether an operation is about the slots of shards.
func onSlots(op *clusterpb.Operation) bool {
	return slices.Contains([]clusterpb.OperationKind{splitShard, moveSlots, balance, keepSlots}, op.GetKind())
}

// checkSlots checks an operation on slots that is about to begin. One at a time is under way, because each is planned
// on the slot map that the one before leaves.
func checkSlots(s *clusterpb.ControlState, op *clusterpb.Operation) error {
	if op.Kind == keepSlots {
		return nil
	}
	for _, old := range s.Operations {
		if old.State == clusterpb.OperationState_OPERATION_STATE_RUNNING && onSlots(old) && old.Kind != keepSlots {
			return fmt.Errorf("operation %s moves slots: wait for its end, or stop it (`belfry operation stop %s`)",
				old.Id, old.Id)
		}
	}
	end := uint32(0)
	for _, r := range op.Aims {
		if r.First < end || r.End <= r.First || r.End > task.Slots || r.Shard < 1 || r.Shard > MaxShards {
			return fmt.Errorf("the slots [%d, %d) cannot be brought to shard %d", r.First, r.End, r.Shard)
		}
		end = r.End
	}
	return nil
}

// planSlots returns where an operation brings slots.
func planSlots(s *clusterpb.ControlState, op *clusterpb.Operation) ([]*clusterpb.SlotRange, error) {
	slots := decided(s)
	switch op.Kind {
	case splitShard:
		return planSplit(s, slots, op.Shard)
	case moveSlots:
		return planMove(s, op)
	case balance:
		return planBalance(s, slots, cmp.Or(int(op.Shards), len(s.Shards)))
	}
	return nil, nil
}

// decided returns the slot map as it will be after the moves under way.
func decided(s *clusterpb.ControlState) []*clusterpb.SlotRange {
	slots := s.Slots
	for _, m := range s.SlotMoves {
		if m.State == copying {
			slots = slotsAfter(slots, m)
		}
	}
	return slots
}

func planSplit(s *clusterpb.ControlState, slots []*clusterpb.SlotRange, shard uint32) ([]*clusterpb.SlotRange, error) {
	switch {
	case Shard(s, shard) == nil:
		return nil, fmt.Errorf("there is no shard %d; the cluster has the shards 1 to %d", shard, len(s.Shards))
	case owned(slots, shard) < 2:
		return nil, fmt.Errorf("shard %d has %d slots, and a slot cannot be split", shard, owned(slots, shard))
	case len(s.Shards) >= MaxShards:
		return nil, fmt.Errorf("there are %d shards already, and %d is the limit", len(s.Shards), MaxShards)
	}
	return aimAt(uint32(len(s.Shards))+1, upper(slots, shard, owned(slots, shard)/2)), nil
}

func planMove(s *clusterpb.ControlState, op *clusterpb.Operation) ([]*clusterpb.SlotRange, error) {
	switch {
	case Shard(s, op.Shard) == nil:
		return nil, fmt.Errorf("there is no shard %d; the cluster has the shards 1 to %d", op.Shard, len(s.Shards))
	case len(op.Slots) == 0:
		return nil, fmt.Errorf("no slots are named")
	}
	return aimAt(op.Shard, op.Slots), nil
}

func aimAt(shard uint32, ranges []*fsmpb.SlotRange) []*clusterpb.SlotRange {
	var aims []*clusterpb.SlotRange
	for _, r := range ranges {
		aims = append(aims, &clusterpb.SlotRange{First: r.First, End: r.End, Shard: shard})
	}
	return aims
}

// planBalance gives each shard as many slots, or one more. It moves as few slots as it can, each once. Each shard gets
// slots of the shard that has most to give, so that moves from several shards can go on side by side.
func planBalance(s *clusterpb.ControlState, slots []*clusterpb.SlotRange, shards int) ([]*clusterpb.SlotRange, error) {
	switch {
	case shards < len(s.Shards):
		return nil, fmt.Errorf("there are %d shards, and shards are not merged into %d", len(s.Shards), shards)
	case shards > MaxShards:
		return nil, fmt.Errorf("%d shards: a cluster has at most %d", shards, MaxShards)
	}
	wanted := evenly(slots, shards)
	given := make(map[uint32][]*fsmpb.SlotRange) // by shard
	for shard := uint32(1); int(shard) <= shards; shard++ {
		if has := owned(slots, shard); has > wanted[shard] {
			given[shard] = upper(slots, shard, has-wanted[shard])
		}
	}
	var aims []*clusterpb.SlotRange
	for shard := uint32(1); int(shard) <= shards; shard++ {
		for lacks := wanted[shard] - min(wanted[shard], owned(slots, shard)); lacks > 0; {
			var r *fsmpb.SlotRange
			from := most(given)
			r, given[from] = take(given[from], lacks)
			aims = append(aims, &clusterpb.SlotRange{First: r.First, End: r.End, Shard: shard})
			lacks -= r.End - r.First
		}
	}
	slices.SortFunc(aims, func(a, b *clusterpb.SlotRange) int { return cmp.Compare(a.First, b.First) })
	return aims, nil
}

// most returns the shard that gives most slots; of equal ones, the first.
func most(given map[uint32][]*fsmpb.SlotRange) uint32 {
	count := func(shard uint32) uint32 { return (&transfer{ranges: given[shard]}).slots() }
	shards := slices.Sorted(maps.Keys(given))
	return slices.MaxFunc(shards, func(a, b uint32) int { return cmp.Compare(count(a), count(b)) })
}

// evenly returns how many slots each shard should have. The shards that have most now keep one more.
func evenly(slots []*clusterpb.SlotRange, shards int) map[uint32]uint32 {
	ids := make([]uint32, shards)
	for i := range ids {
		ids[i] = uint32(i) + 1
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(owned(slots, b), owned(slots, a)) })
	wanted := make(map[uint32]uint32, shards)
	for i, id := range ids {
		wanted[id] = uint32(task.Slots / shards)
		if i < task.Slots%shards {
			wanted[id]++
		}
	}
	return wanted
}

// take returns at most count slots of the first range, and the ranges without them.
func take(ranges []*fsmpb.SlotRange, count uint32) (*fsmpb.SlotRange, []*fsmpb.SlotRange) {
	first := ranges[0]
	if first.End-first.First <= count {
		return first, ranges[1:]
	}
	rest := slices.Clone(ranges)
	rest[0] = &fsmpb.SlotRange{First: first.First + count, End: first.End}
	return &fsmpb.SlotRange{First: first.First, End: first.First + count}, rest
}

// transfer is the slots that one shard has still to give another one.
type transfer struct {
	from, to uint32
	ranges   []*fsmpb.SlotRange // sorted
}

func (t *transfer) slots() uint32 {
	count := uint32(0)
	for _, r := range t.ranges {
		count += r.End - r.First
	}
	return count
}

// transfers returns the slots that are not where they should be, by the shard that gets them. Of the transfers to one
// shard, the largest is the first.
func transfers(slots, aims []*clusterpb.SlotRange) []transfer {
	var all []transfer
	for _, aim := range aims {
		for _, r := range slots {
			first, end := max(r.First, aim.First), min(r.End, aim.End)
			if first >= end || r.Shard == aim.Shard {
				continue
			}
			at := slices.IndexFunc(all, func(t transfer) bool { return t.from == r.Shard && t.to == aim.Shard })
			if at < 0 {
				at, all = len(all), append(all, transfer{from: r.Shard, to: aim.Shard})
			}
			all[at].ranges = append(all[at].ranges, &fsmpb.SlotRange{First: first, End: end})
		}
	}
	slices.SortStableFunc(all, func(a, b transfer) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(b.slots(), a.slots()))
	})
	return all
}

// SlotsLeft returns the number of slots that an operation has still to move.
func SlotsLeft(s *clusterpb.ControlState, op *clusterpb.Operation) uint32 {
	left := uint32(0)
	for _, t := range transfers(s.Slots, op.Aims) {
		left += t.slots()
	}
	return left
}

// plannedMoves describes the transfers of an operation.
func plannedMoves(s *clusterpb.ControlState, op *clusterpb.Operation) []*clusterpb.PlannedMove {
	var moves []*clusterpb.PlannedMove
	made := uint32(len(s.Shards))
	for _, t := range transfers(s.Slots, op.Aims) {
		move := &clusterpb.PlannedMove{Shard: t.to, Action: "move", From: t.from, Slots: t.slots()}
		if t.to > made {
			move.Action, made = "split", t.to
		}
		moves = append(moves, move)
	}
	return moves
}
