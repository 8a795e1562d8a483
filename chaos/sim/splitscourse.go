package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// shift is an operation on slots.
type shift struct {
	at   time.Duration // after the beginning of the course
	seed uint64        // of the operation's own choices
}

// drawShifts adds operations on slots to a course, from a source of their own: the other parts of a seed stay as they
// are without moves.
//
// A move takes a second or two. So three operations in four begin in an episode, or shortly before, and one or two
// strikes at the leaders of the move join the episode. In clusters that live for weeks all operations begin while
// nothing is broken: their faults last for hours, and so would the moves.
func (c *course) drawShifts(cfg Config, rng *rand.Rand) {
	for range cfg.Operations {
		sh := shift{at: time.Duration(rng.Int64N(int64(cfg.Span))), seed: rng.Uint64()}
		if len(c.episodes) > 0 && cfg.pace.name != "weeks" && rng.IntN(4) > 0 {
			e := rng.IntN(len(c.episodes))
			sh.at = c.episodes[e].at + time.Duration(rng.Int64N(int64(c.episodes[e].until-c.episodes[e].at)))
			for range 1 + rng.IntN(2) {
				c.aim(e, sh.at, cfg.pace, rng)
			}
		} else if cfg.pace.name == "weeks" {
			sh.at = c.calmAt(sh.at, cfg.pace)
		}
		c.shifts = append(c.shifts, sh)
	}
	slices.SortFunc(c.shifts, func(a, b shift) int { return cmp.Compare(a.at, b.at) })
	slices.Sort(c.moments)
}

// aim adds a strike at the leaders of a move to episode e, just before the operation begins. The episode may grow, up
// to half of the calm before the next one.
func (c *course) aim(e int, begin time.Duration, p pace, rng *rand.Rand) {
	ep := &c.episodes[e]
	s := strike{
		kind: aimed[rng.IntN(len(aimed))], hold: load.Between(rng, 5*time.Second, 20*time.Second),
		seed:  rng.Uint64(),
		after: max(0, begin-ep.at-time.Second),
	}
	s.hold = min(s.hold, ep.until-ep.at+p.calm[0]/2-s.after)
	ep.strikes = append(ep.strikes, s)
	ep.until = max(ep.until, ep.at+s.after+s.hold)
	c.moments = append(c.moments, ep.at+s.after, ep.at+s.after+s.hold)
}

// calmAt returns the first instant from at on that is no part of an episode or of the recovery after it.
func (c *course) calmAt(at time.Duration, p pace) time.Duration {
	for _, e := range c.episodes {
		if e.at-time.Minute < at && at < e.until+p.recovery() {
			at = e.until + p.recovery()
		}
	}
	return at
}

// operation returns the operation on slots, as the state allows it: a split in half of all cases, else slots that move
// to any shard, or slots spread evenly over the shards and perhaps further ones.
func (s shift) operation(state *clusterpb.ControlState, id string, most uint32) *clusterpb.Operation {
	rng := rand.New(rand.NewPCG(s.seed, 2))
	op := &clusterpb.Operation{Id: id, BeganMs: 1}
	shards := uint32(len(state.Shards))
	op.Shard = 1 + rng.Uint32N(shards)
	switch n := rng.IntN(4); {
	case n < 2 && shards < most || shards == 1:
		op.Kind = clusterpb.OperationKind_OPERATION_KIND_SPLIT
	case n == 2:
		op.Kind, op.Shard = clusterpb.OperationKind_OPERATION_KIND_BALANCE, 0
		op.Shards = shards + rng.Uint32N(most-shards+1)
	default:
		op.Kind = clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS
		first := rng.Uint32N(task.Slots - task.Slots/8)
		op.Slots = []*fsmpb.SlotRange{{First: first, End: first + 1 + rng.Uint32N(task.Slots/8)}}
	}
	return op
}

// leavesSlots reports whether each shard that has slots has some after an operation. The checks await writes of each
// shard.
func leavesSlots(state *clusterpb.ControlState, op *clusterpb.Operation) bool {
	before, after := map[uint32]int{}, map[uint32]int{}
	for _, r := range state.Slots {
		before[r.Shard] += int(r.End - r.First)
		after[r.Shard] += int(r.End - r.First)
		for _, aim := range op.Aims {
			n := max(0, int(min(r.End, aim.End))-int(max(r.First, aim.First)))
			after[r.Shard] -= n
			after[aim.Shard] += n
		}
	}
	for shard := range before {
		if before[shard] > 0 && after[shard] == 0 {
			return false
		}
	}
	return true
}
