package faults

import (
	"context"

	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
)

// The names of the kinds of group "shape" that move slots between shards. All are planned.
const (
	ShardSplits   = "shard splits"
	SlotsBalanced = "slots are balanced"
	MoreShards    = "shards are 12"
	manyShards    = 12
)

// slotKinds returns the kinds of group "shape" that move slots. Shards are never merged, so a cluster gets at most
// manyShards.
func slotKinds() []Kind {
	return []Kind{
		shapeKind(ShardSplits, 3, splitsShards, func(ctx context.Context, s *striking) error { return s.split(ctx) }),
		shapeKind(SlotsBalanced, 3, splitsShards, func(ctx context.Context, s *striking) error { return s.balance(ctx, 0) }),
		shapeKind(MoreShards, 1, splitsShards, func(ctx context.Context, s *striking) error {
			return s.balance(ctx, manyShards)
		}),
	}
}

// splitsShards returns an error if the stand's cluster cannot change its shape, or if it holds an older command
// version, which has no moves of slots.
func splitsShards(s *stand.Stand) error {
	if err := s.HasOther(); err == nil {
		return stand.ErrHeld
	}
	return s.Shapes()
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

func (s *striking) moveSlots(ctx context.Context, ask client.OperationRequest) error {
	return s.planned(ctx, nil, func() error {
		if err := s.Stand.Operate(ctx, ask); err != nil {
			return err
		}
		return s.Stand.AwaitMoves(ctx)
	})
}
