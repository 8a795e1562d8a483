package faults

import (
	"context"
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/client"
)

// The names of the kinds of group "shape" that move slots between shards. All are planned.
const (
	ShardSplits   = "shard splits"
	SlotsBalanced = "slots are balanced"
	MoreShards    = "shards are 12"
	SlotsMove     = "slots move to another shard"
	manyShards    = 12
)

// slotKinds returns the kinds of group "shape" that move slots, each made by kind. Shards are never merged, so a
// cluster gets at most manyShards.
func slotKinds(kind func(name string, weight int, strike func(context.Context, *striking) error) Kind) []Kind {
	return []Kind{
		kind(ShardSplits, 3, func(ctx context.Context, s *striking) error { return s.split(ctx) }),
		kind(SlotsBalanced, 3, func(ctx context.Context, s *striking) error { return s.balance(ctx, 0) }),
		kind(MoreShards, 1, func(ctx context.Context, s *striking) error { return s.balance(ctx, manyShards) }),
		kind(SlotsMove, 3, func(ctx context.Context, s *striking) error { return s.shift(ctx) }),
	}
}

// split moves half of the slots of a shard to a new one.
func (s *striking) split(ctx context.Context) error {
	leaders, err := s.Stand.Leaders(ctx)
	if err != nil || len(leaders) == 0 || len(leaders) >= manyShards {
		return ErrBusy
	}
	shard := s.Shard
	if shard == 0 {
		shard = uint32(1 + s.Rand.IntN(len(leaders)))
	}
	return s.moveSlots(ctx, client.OperationRequest{Kind: client.Split, Shard: int(shard)})
}

// balance gives all shards as many slots, and makes new shards up to the number; 0: none.
func (s *striking) balance(ctx context.Context, shards int) error {
	leaders, err := s.Stand.Leaders(ctx)
	if err != nil || shards > 0 && len(leaders) >= shards {
		return ErrBusy
	}
	return s.moveSlots(ctx, client.OperationRequest{Kind: client.Balance, To: shards})
}

// shift moves the upper half of a shard's slots to another shard.
func (s *striking) shift(ctx context.Context) error {
	view, err := s.Stand.View(ctx)
	if err != nil || len(view.Shards) < 2 {
		return ErrBusy
	}
	from := s.Rand.IntN(len(view.Shards))
	to := (from + 1 + s.Rand.IntN(len(view.Shards)-1)) % len(view.Shards)
	slots := upperHalf(view.Shards[from].Slots)
	if slots == "" {
		return ErrBusy
	}
	return s.moveSlots(ctx, client.OperationRequest{
		Kind: client.MoveSlots, Slots: slots, To: int(view.Shards[to].ID),
	})
}

// upperHalf returns the upper half of some slots, as an operation names them; "" if there is one slot or none.
func upperHalf(slots []client.Slots) string {
	count := uint32(0)
	for _, r := range slots {
		count += r.End - r.First
	}
	var ranges []string
	left := count / 2
	for i := len(slots) - 1; i >= 0 && left > 0; i-- {
		r := slots[i]
		n := min(left, r.End-r.First)
		ranges = append([]string{fmt.Sprintf("%d-%d", r.End-n, r.End-1)}, ranges...)
		left -= n
	}
	return strings.Join(ranges, ",")
}

func (s *striking) moveSlots(ctx context.Context, ask client.OperationRequest) error {
	return s.planned(ctx, nil, func() error {
		if err := s.Stand.Operate(ctx, ask); err != nil {
			return err
		}
		return s.Stand.AwaitMoves(ctx)
	})
}
