package control

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// The states of a move of slots.
const (
	copying  = clusterpb.SlotMoveState_SLOT_MOVE_STATE_COPYING
	opening  = clusterpb.SlotMoveState_SLOT_MOVE_STATE_OPENING
	givingUp = clusterpb.SlotMoveState_SLOT_MOVE_STATE_GIVING_UP
)

// MaxShards is the largest number of shards of a cluster. Each costs memory, goroutines and heartbeats on its nodes.
const MaxShards = 256

// applySplit makes a shard on the nodes of another one, and begins the move of some of the slots.
func applySplit(s *clusterpb.ControlState, split *clusterpb.Split) error {
	from := Shard(s, split.Shard)
	switch {
	case from == nil || len(from.Replicas) == 0:
		return fmt.Errorf("there is no shard %d with replicas", split.Shard)
	case len(from.Target) > 0:
		return fmt.Errorf("the replicas of shard %d are on the move", split.Shard)
	case int(split.Shards) != len(s.Shards):
		return fmt.Errorf("there are %d shards, not %d", len(s.Shards), split.Shards)
	case len(s.Shards) >= MaxShards:
		return fmt.Errorf("there are %d shards already, and %d is the limit", len(s.Shards), MaxShards)
	}
	ranges := split.Ranges
	if len(ranges) == 0 {
		ranges = upper(s.Slots, split.Shard, owned(s.Slots, split.Shard)/2)
	}
	if len(ranges) == 0 {
		return fmt.Errorf("shard %d has fewer than two slots", split.Shard)
	}
	made := &clusterpb.Shard{Id: uint32(len(s.Shards)) + 1, Replicas: from.Replicas, Preferred: from.Preferred}
	s.Shards = append(slices.Clone(s.Shards), made)
	return beginMove(s, &clusterpb.SlotMove{Ranges: ranges, From: from.Id, To: made.Id})
}

// owned returns the number of slots that a shard owns.
func owned(slots []*clusterpb.SlotRange, shard uint32) uint32 {
	count := uint32(0)
	for _, r := range slots {
		if r.Shard == shard {
			count += r.End - r.First
		}
	}
	return count
}

// upper returns the upper count of a shard's slots.
func upper(slots []*clusterpb.SlotRange, shard, count uint32) []*fsmpb.SlotRange {
	var ranges []*fsmpb.SlotRange
	for _, r := range slices.Backward(slots) {
		if n := min(count, r.End-r.First); r.Shard == shard && n > 0 {
			ranges = append(ranges, &fsmpb.SlotRange{First: r.End - n, End: r.End})
			count -= n
		}
	}
	slices.Reverse(ranges)
	return ranges
}

// applyMoveSlots begins a move.
func applyMoveSlots(s *clusterpb.ControlState, move *clusterpb.MoveSlots) error {
	if move.Last != s.LastSlotMove {
		return fmt.Errorf("move %d was the last to begin, not %d", s.LastSlotMove, move.Last)
	}
	return beginMove(s, &clusterpb.SlotMove{Ranges: move.Ranges, From: move.From, To: move.To})
}

// beginMove adds a move under the next number.
func beginMove(s *clusterpb.ControlState, move *clusterpb.SlotMove) error {
	if err := checkMove(s, move); err != nil {
		return err
	}
	s.LastSlotMove++
	move.Number = s.LastSlotMove
	move.Fresh = !slices.ContainsFunc(s.Slots, func(r *clusterpb.SlotRange) bool { return r.Shard == move.To })
	s.SlotMoves = append(slices.Clone(s.SlotMoves), move)
	return nil
}

func checkMove(s *clusterpb.ControlState, move *clusterpb.SlotMove) error {
	to := Shard(s, move.To)
	switch {
	case Shard(s, move.From) == nil || to == nil || move.From == move.To:
		return fmt.Errorf("slots cannot move from shard %d to shard %d", move.From, move.To)
	case len(to.Replicas) == 0:
		return fmt.Errorf("shard %d has no replicas yet", move.To)
	}
	if err := checkRanges(s, move); err != nil {
		return err
	}
	for _, other := range s.SlotMoves {
		switch {
		case other.To == move.To:
			return fmt.Errorf("move %d to shard %d is under way", other.Number, other.To)
		case overlap(other.Ranges, move.Ranges):
			return fmt.Errorf("move %d of some of the slots is under way", other.Number)
		}
	}
	return nil
}

func checkRanges(s *clusterpb.ControlState, move *clusterpb.SlotMove) error {
	if len(move.Ranges) == 0 {
		return errors.New("no slots are named")
	}
	end := uint32(0)
	for _, r := range move.Ranges {
		if r.First < end || r.End <= r.First || r.End > task.Slots {
			return fmt.Errorf("[%d, %d) is no range of slots, or not behind the range before it", r.First, r.End)
		}
		if end = r.End; !owns(s.Slots, move.From, r) {
			return fmt.Errorf("shard %d does not own the slots [%d, %d)", move.From, r.First, r.End)
		}
	}
	return nil
}

func owns(slots []*clusterpb.SlotRange, shard uint32, r *fsmpb.SlotRange) bool {
	owned := uint32(0)
	for _, s := range slots {
		if first, end := max(s.First, r.First), min(s.End, r.End); s.Shard == shard && first < end {
			owned += end - first
		}
	}
	return owned == r.End-r.First
}

func overlap(a, b []*fsmpb.SlotRange) bool {
	return slices.ContainsFunc(a, func(x *fsmpb.SlotRange) bool {
		return slices.ContainsFunc(b, func(y *fsmpb.SlotRange) bool { return max(x.First, y.First) < min(x.End, y.End) })
	})
}

// applyTurnMove decides on a move. The first decision stays.
func applyTurnMove(s *clusterpb.ControlState, turn *clusterpb.TurnMove) error {
	at := moveAt(s, turn.Number)
	switch {
	case at < 0:
		return fmt.Errorf("there is no move %d", turn.Number)
	case turn.State != opening && turn.State != givingUp:
		return fmt.Errorf("%v is no decision", turn.State)
	case s.SlotMoves[at].State == turn.State:
		return nil
	case s.SlotMoves[at].State != copying:
		return fmt.Errorf("move %d is decided on already: %v", turn.Number, s.SlotMoves[at].State)
	}
	turned := proto.CloneOf(s.SlotMoves[at])
	turned.State = turn.State
	s.SlotMoves = slices.Clone(s.SlotMoves)
	s.SlotMoves[at] = turned
	if turn.State == opening {
		s.Slots = slotsAfter(s.Slots, turned)
	}
	return nil
}

func moveAt(s *clusterpb.ControlState, number uint64) int {
	return slices.IndexFunc(s.SlotMoves, func(m *clusterpb.SlotMove) bool { return m.Number == number })
}

// slotsAfter returns the slot map after a move.
func slotsAfter(slots []*clusterpb.SlotRange, move *clusterpb.SlotMove) []*clusterpb.SlotRange {
	var next []*clusterpb.SlotRange
	add := func(first, end, shard uint32, epoch uint64) {
		last := len(next) - 1
		switch {
		case first >= end:
		case last >= 0 && next[last].Shard == shard && next[last].Epoch == epoch:
			next[last].End = end
		default:
			next = append(next, &clusterpb.SlotRange{First: first, End: end, Shard: shard, Epoch: epoch})
		}
	}
	for _, r := range slots {
		at := r.First
		for _, m := range move.Ranges {
			if first, end := max(r.First, m.First), min(r.End, m.End); first < end {
				add(at, first, r.Shard, r.Epoch)
				add(first, end, move.To, move.Number)
				at = end
			}
		}
		add(at, r.End, r.Shard, r.Epoch)
	}
	return next
}

// applyEndMove removes a move, or begins it anew.
func applyEndMove(s *clusterpb.ControlState, end *clusterpb.EndMove) error {
	at := moveAt(s, end.Number)
	if at < 0 {
		return nil // ended already
	}
	ended := s.SlotMoves[at]
	if ended.State == copying {
		return fmt.Errorf("move %d is not decided on", end.Number)
	}
	s.SlotMoves = slices.Delete(slices.Clone(s.SlotMoves), at, at+1)
	if !end.Again || ended.State != givingUp {
		return nil
	}
	return beginMove(s, &clusterpb.SlotMove{
		Ranges: ended.Ranges, From: ended.From, To: ended.To, Tries: ended.Tries + 1,
	})
}
