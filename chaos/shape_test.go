package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/internal/wait"
)

// shapes returns a function that plays plans which change the shape of a cluster, each as a subtest.
func shapes(t *testing.T) func(name string, cfg siege.Config, plan siege.Plan, judge func(*testing.T, *siege.Report)) {
	t.Helper()
	localtest.Need(t)
	binary := localtest.Build(t, "chaos")
	return func(name string, cfg siege.Config, plan siege.Plan, judge func(*testing.T, *siege.Report)) {
		t.Run(name, func(t *testing.T) {
			cfg.Binary, cfg.Dir, cfg.Limits, cfg.Seed = binary, folder(t, name), mild(), seed(t)
			cfg.Round, cfg.Plan, cfg.Keep = 1, &plan, true
			cfg.Faults = []string{"shape", history.KillLeader, faults.KillAny}
			cfg.NoNetwork, cfg.NoDisks, cfg.NoClocks, cfg.NoGossip, cfg.NoMemory = true, true, true, true, true
			report, err := siege.Run(t.Context(), cfg)
			assert.NoError(t, err)
			t.Log(report.Markdown())
			if !report.OK() {
				t.Fail()
			}
			judge(t, report)
		})
	}
}

// parallelIfShort lets the short form of a test run in parallel with others.
func parallelIfShort(t *testing.T) {
	t.Helper()
	if !gated.Has(gated.Long) {
		t.Parallel()
	}
}

// struck returns a judge that wants a kind of fault to have struck so often.
func struck(kind string, times int) func(*testing.T, *siege.Report) {
	return func(t *testing.T, report *siege.Report) {
		t.Helper()
		if n := struckBy(report, kind); n < times {
			t.Errorf("%s: %d times: nothing was shown", kind, n)
		}
	}
}

// noneRefused wants calls during planned changes, and none of them answered 5xx.
func noneRefused(t *testing.T, report *siege.Report) {
	t.Helper()
	toll := tollOf(report, check.PlannedAlone)
	if toll.Calls.Count == 0 || toll.Refused > 0 {
		t.Errorf("of %d schedules and other calls during planned changes %d were refused", toll.Calls.Count, toll.Refused)
	}
}

// shortShape is the load of a short run, in which a node gets replicas after a second.
func shortShape() siege.Config {
	return siege.Config{Sample: 500, PerSecond: 50, MaxDelay: 2 * time.Second, Env: []string{"BELFRY_CALM=1s"}}
}

// TestClusterChangesItsShapeUnderLoad takes a cluster of one node to three, five and three nodes under load, and to
// five replicas of each shard and back. The long form does so twice: undisturbed, and while nodes are killed.
func TestClusterChangesItsShapeUnderLoad(t *testing.T) {
	gated.Need(t, gated.Real)
	parallelIfShort(t)
	play := shapes(t)
	planned := siege.Plan{Name: "1, 3, 5 and 3 nodes", Play: growAndShrink}
	killed := func(pause time.Duration) siege.Plan {
		return siege.Plan{Name: "1, 3, 5 and 3 nodes, and kills", Play: underKills(pause, growAndShrink)}
	}
	joined := struck(faults.NodeJoins, 3)
	if gated.Has(gated.Long) {
		all := siege.Config{
			Nodes: 1, Spare: 4, Shards: 12, PerSecond: 200, Bulk: 500, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute,
		}
		play("planned", all, planned, joined)
		play("killed", all, killed(15*time.Second), joined)
		return
	}
	short := shortShape()
	short.Nodes, short.Spare = 1, 4
	play("killed", short, killed(3*time.Second), joined)
}

// TestShardsSplitUnderLoad takes a cluster of three shards to twelve under load. The long form does so twice:
// undisturbed at about a quarter of the load that the cluster can carry on two cores, and while nodes are killed.
func TestShardsSplitUnderLoad(t *testing.T) {
	gated.Need(t, gated.Real)
	play := shapes(t)
	undisturbed := func(t *testing.T, report *siege.Report) {
		struck(faults.MoreShards, 1)(t, report)
		noneRefused(t, report)
	}
	if !gated.Has(gated.Long) {
		plan := siege.Plan{Name: "3, 4 and 12 shards", Play: strikeInTurn(faults.ShardSplits, faults.MoreShards)}
		play("planned", shortShape(), plan, undisturbed)
		return
	}
	all := siege.Config{PerSecond: 100, Bulk: 2400, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute}
	play("planned", all, siege.Plan{Name: "3, 5 and 12 shards", Play: splitShards}, undisturbed)
	all.Bulk = 500
	killed := siege.Plan{Name: "3, 5 and 12 shards, and kills", Play: underKills(8*time.Second, splitShards)}
	play("killed", all, killed, struck(faults.MoreShards, 1))
}

// TestNodeAndZoneAreLost takes away a node of five in three zones for good, and then all nodes of a zone at once. Every
// shard answers with the nodes that are left, and the cluster makes the lost replicas anew without a call.
func TestNodeAndZoneAreLost(t *testing.T) {
	gated.Need(t, gated.Real)
	parallelIfShort(t)
	play := shapes(t)
	plan := siege.Plan{Name: "a node and a zone are lost", Play: loseNodeAndZone}
	judge := func(t *testing.T, report *siege.Report) {
		struck(faults.LostNode, 1)(t, report)
		struck(faults.LostZone, 1)(t, report)
		assert.Equal(t, report.Outcome("13f"), check.Held, "whether a majority is enough")
	}
	cfg := shortShape()
	cfg.ReplaceAfter = 2 * time.Second
	if gated.Has(gated.Long) {
		cfg = siege.Config{Shards: 12, PerSecond: 200, Bulk: 500, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute}
		cfg.ReplaceAfter = 30 * time.Second
	}
	cfg.Nodes, cfg.Zones = 5, 3
	play("lost", cfg, plan, judge)
}

// struckBy returns how often a kind of fault struck.
func struckBy(report *siege.Report, kind string) int {
	struck := 0
	for _, round := range report.Rounds {
		for _, toll := range round.Tolls {
			if toll.Kind == kind {
				struck += toll.Count
			}
		}
	}
	return struck
}

// growAndShrink is the play of a Plan for one node with four spare ones. The cluster grows to three nodes and to five,
// gets five replicas of each shard and three again, and shrinks to three nodes. On the way one node is drained, and
// another one loses its disk.
var growAndShrink = strikeInTurn(
	faults.NodeJoins, faults.NodeJoins, faults.NodeJoins, faults.MoreReplicas, faults.FewerReplicas,
	faults.NodeDrains, faults.LostDisk, faults.NodeLeaves, faults.NodeLeaves,
)

// loseNodeAndZone plays a Plan for five nodes in three zones. It ends a node for good, then all nodes of a zone for a
// while. Each fault lasts until the other nodes have the lost replicas.
func loseNodeAndZone(ctx context.Context, r *siege.Round) error {
	if err := r.Strike(ctx, faults.LostNode, 0, 0); err != nil {
		return err
	}
	if err := r.Pause(ctx, afterKill); err != nil {
		return err
	}
	return r.Strike(ctx, faults.LostZone, 0, 0)
}

// splitShards is the play of a Plan for three shards. Shards split twice, and the slots are balanced over the five
// shards and then over twelve.
var splitShards = strikeInTurn(faults.ShardSplits, faults.ShardSplits, faults.SlotsBalanced, faults.MoreShards)

// strikeInTurn is the play of a Plan that strikes kinds of faults one after the other. Each of them chooses its target.
func strikeInTurn(kinds ...string) func(context.Context, *siege.Round) error {
	return func(ctx context.Context, r *siege.Round) error {
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

// underKills plays a plan while one node after the other is killed: in turn the leader of a shard, and any node. Among
// them are the sources and targets of copies, and the reconciler. The pause between two kills must be longer than the
// time that a node must be up before it gets replicas, or the cluster stays as it is.
func underKills(
	pause time.Duration, play func(context.Context, *siege.Round) error,
) func(context.Context, *siege.Round) error {
	return func(ctx context.Context, r *siege.Round) error {
		kills := []string{history.KillLeader, faults.KillAny}
		return r.During(ctx, play, func(playing context.Context) error {
			if !wait.For(playing, pause) {
				return nil
			}
			kills[0], kills[1] = kills[1], kills[0]
			return r.Strike(ctx, kills[1], killDead, 0)
		})
	}
}
