package siege

import (
	"context"
	"errors"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
)

// GrowAndShrink is the play of a Plan for one node with four spare ones. The cluster grows to three nodes and to five,
// gets five replicas of each shard and three again, and shrinks to three nodes. On the way one node is drained, and
// another one loses its disk.
var GrowAndShrink = InTurn(
	faults.NodeJoins, faults.NodeJoins, faults.NodeJoins, faults.MoreReplicas, faults.FewerReplicas,
	faults.NodeDrains, faults.LostDisk, faults.NodeLeaves, faults.NodeLeaves,
)

// LoseNodeAndZone is the play of a Plan for five nodes in three zones. A node is lost for good, and then a zone for a
// while, each until the other nodes have the lost replicas.
func LoseNodeAndZone(ctx context.Context, r *Round) error {
	if err := r.Strike(ctx, faults.LostNode, 0, 0); err != nil {
		return err
	}
	if err := r.Pause(ctx, drillCalm); err != nil {
		return err
	}
	return r.Strike(ctx, faults.LostZone, 0, 0)
}

// SplitShards is the play of a Plan for three shards. Shards split twice, and the slots are balanced over the five
// shards and then over twelve.
var SplitShards = InTurn(faults.ShardSplits, faults.ShardSplits, faults.SlotsBalanced, faults.MoreShards)

// InTurn is the play of a Plan that strikes kinds of faults one after the other. Each of them chooses its target.
func InTurn(kinds ...string) func(context.Context, *Round) error {
	return func(ctx context.Context, r *Round) error {
		for _, kind := range kinds {
			if err := r.Strike(ctx, kind, 0, 0); err != nil {
				return err
			}
		}
		return nil
	}
}

// killDead is how long a killed node is dead while the cluster changes its shape.
const killDead = time.Second

// UnderKills plays a plan while one node after the other is killed: in turn the leader of a shard, and any node. Among
// them are the sources and targets of copies, and the reconciler. The pause between two kills must be longer than the
// time that a node must be up before it gets replicas, or the cluster stays as it is.
func UnderKills(pause time.Duration, play func(context.Context, *Round) error) func(context.Context, *Round) error {
	return func(ctx context.Context, r *Round) error {
		var played error
		done := make(chan struct{})
		go func() {
			defer close(done)
			played = play(ctx, r)
		}()
		for kind := range alternately(history.KillLeader, faults.KillAny) {
			select {
			case <-done:
				return played
			case <-time.After(pause):
			}
			if err := r.Strike(ctx, kind, killDead, 0); err != nil {
				<-done
				return errors.Join(err, played)
			}
		}
		return nil
	}
}

// alternately returns the kinds in turn, without end.
func alternately(kinds ...string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := 0; yield(kinds[i%len(kinds)]); i++ {
			continue
		}
	}
}
