package control

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// grownCluster is a cluster of two nodes and two shards, of which shard 2 has been above the limit for long.
func grownCluster() growth {
	state := twoShards()
	state.Nodes = []*clusterpb.Node{{Id: "a"}, {Id: "b"}}
	return growth{
		state: state, limits: AutoSplit{Bytes: 1000, Shards: 4}, calm: 10 * time.Second, now: time.UnixMilli(10_000_000),
		census: Census{
			Bytes: map[uint32]uint64{1: 1000, 2: 1200},
			Room:  map[string]Room{"a": {Memory: 600, Disk: 1200}, "b": {Memory: NoBound, Disk: NoBound}},
		},
		grown: map[uint32]time.Duration{2: time.Hour}, up: func(string) bool { return true },
	}
}

// A shard above its limit splits once nothing else goes on and there is room for it. Else the reason is given.
func TestNextAutoSplit(t *testing.T) {
	ended := func(g *growth, ago time.Duration, op *clusterpb.Operation) {
		op.Id, op.EndedMs = "old", g.now.Add(-ago).UnixMilli()
		g.state.Operations = append(g.state.Operations, op)
	}
	const split, drain = clusterpb.OperationKind_OPERATION_KIND_SPLIT, clusterpb.OperationKind_OPERATION_KIND_DRAIN
	done, halted := clusterpb.OperationState_OPERATION_STATE_DONE, clusterpb.OperationState_OPERATION_STATE_STOPPED
	for name, test := range map[string]struct {
		edit  func(g *growth)
		shard uint32
		waits string
	}{
		"one above the limit": {func(*growth) {}, 2, ""},
		"none above it":       {func(g *growth) { g.census.Bytes[2] = 1000 }, 0, ""},
		"the largest first": {func(g *growth) {
			g.census.Bytes[1], g.grown[1], g.census.Room["a"] = 1300, time.Hour, Room{NoBound, NoBound}
		}, 1, ""},
		"the second if the first is not fit": {func(g *growth) { g.census.Bytes[1] = 1300 }, 2, ""},
		"too many shards":                    {func(g *growth) { g.limits.Shards = 2 }, 0, "there are 2 shards, and --auto-split-shards is 2"},
		"an operation": {func(g *growth) {
			g.state.Operations = []*clusterpb.Operation{{Id: "x", Kind: drain}}
		}, 0, "operation x is under way"},
		"slots on the move": {func(g *growth) {
			g.state.SlotMoves = []*clusterpb.SlotMove{{Number: 1, Ranges: []*fsmpb.SlotRange{{End: 1}}}}
		}, 0, "slots are on the move"},
		"replicas on the move": {func(g *growth) { g.state.Shards[0].Target = []string{"b"} }, 0, "the replicas of shard 1 are on the move"},
		"a new shard":          {func(g *growth) { g.state.Shards[1].Replicas = nil }, 0, "the replicas of shard 2 are on the move"},
		"a split has just ended": {func(g *growth) {
			ended(g, 59*time.Second, &clusterpb.Operation{Kind: split, State: done})
		}, 0, "operation old has ended, and none follows it for 1s"},
		"a split has settled": {func(g *growth) { ended(g, time.Minute, &clusterpb.Operation{Kind: split, State: done}) }, 2, ""},
		"a drain has just ended": {func(g *growth) {
			ended(g, time.Second, &clusterpb.Operation{Kind: drain, State: done})
		}, 2, ""},
		"an operator has stopped one": {func(g *growth) {
			ended(g, 59*time.Minute, &clusterpb.Operation{Kind: split, State: halted, Cause: "it grew"})
		}, 0, "operation old has ended, and none follows it for 1m0s"},
		"an operator has stopped one of his own": {func(g *growth) {
			ended(g, 59*time.Minute, &clusterpb.Operation{Kind: split, State: halted})
		}, 2, ""},
		"a node down":          {func(g *growth) { g.up = func(node string) bool { return node != "b" } }, 0, "node b is away"},
		"a node that is still": {func(g *growth) { delete(g.census.Room, "b") }, 0, "node b is away"},
		"a moment only": {func(g *growth) { g.grown[2] = 9 * time.Second }, 0,
			"shard 2 has been above the limit for less than 10s"},
		"one slot": {func(g *growth) {
			g.state.Slots = []*clusterpb.SlotRange{{End: 4095, Shard: 1}, {First: 4095, End: 4096, Shard: 2}}
		}, 0, "shard 2 has one slot"},
		"no memory": {func(g *growth) { g.census.Room["a"] = Room{Memory: 599, Disk: NoBound} }, 0, "node a has no memory"},
		"no disk":   {func(g *growth) { g.census.Room["a"] = Room{Memory: NoBound, Disk: 1199} }, 0, "node a has no disk space"},
	} {
		g := grownCluster()
		test.edit(&g)
		shard, waits := g.next()
		if shard != test.shard || !strings.HasPrefix(waits, test.waits) || (waits == "") != (test.waits == "") {
			t.Errorf("%s: shard %d, waits %q; want shard %d, waits %q", name, shard, waits, test.shard, test.waits)
		}
	}
}

// growing are shards of which one has outgrown the limit. Their leaders move slots at once.
type growing struct {
	idleShards
	shardLeaders

	mu    sync.Mutex
	bytes map[uint32]uint64
}

func (g *growing) Census(context.Context) Census {
	g.mu.Lock()
	defer g.mu.Unlock()
	census := Census{Bytes: make(map[uint32]uint64), Room: map[string]Room{"a": {NoBound, NoBound}}}
	for id, bytes := range g.bytes {
		census.Bytes[id] = bytes
	}
	return census
}

func (g *growing) set(bytes map[uint32]uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bytes = bytes
}

// The leader splits a shard above the limit once, says that it did so by itself, and waits before the next split.
func TestShardsSplitThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := &growing{bytes: map[uint32]uint64{3: 5 << 20, 4: 3 << 20}}
		shards.pull = func(int) (*clusterpb.SlotsProgress, error) {
			shards.set(map[uint32]uint64{3: 5 << 19, 4: 3 << 20, 13: 5 << 19})
			return &clusterpb.SlotsProgress{Ready: true}, nil
		}
		g := single(t, shards)
		r := g.leading.Load()
		shards.group = g
		s := newSplitter(g)
		s.limits, s.calm = AutoSplit{Bytes: 4 << 20, Shards: 20}, time.Second
		now := time.Now()
		s.look(t.Context(), now)
		if got := s.report; got.Waits != "shard 3 has been above the limit for less than 1s" || !slices.Equal(got.Outgrown, []uint32{3}) {
			t.Errorf("at the first look: %v", got)
		}
		s.look(t.Context(), now.Add(time.Second))
		until(t, g, "the operation has ended", func(s *clusterpb.ControlState) bool {
			return len(s.Operations) == 1 && s.Operations[0].EndedMs > 0
		})
		op := g.State().Operations[0]
		if op.Kind != splitShard || op.Shard != 3 || op.Cause != "shard 3 has 5MiB of tasks, and --auto-split is 4MiB" {
			t.Errorf("%v", op)
		}
		if len(g.State().Shards) != 13 || g.AutoSplits() != 1 {
			t.Errorf("%d shards, %d splits", len(g.State().Shards), g.AutoSplits())
		}
		shards.set(map[uint32]uint64{4: 6 << 20})
		s.look(t.Context(), time.UnixMilli(op.EndedMs).Add(time.Second))
		s.look(t.Context(), time.UnixMilli(op.EndedMs).Add(5*time.Second))
		if got := s.report; len(g.State().Shards) != 13 || !strings.HasPrefix(got.Waits, "operation "+op.Id+" has ended") {
			t.Errorf("right after a split: %v", got)
		}
		var shape clusterpb.Shape
		s.fill(&shape)
		if want := (&clusterpb.AutoSplit{Bytes: 4 << 20, Shards: 20, Outgrown: []uint32{4}, Waits: s.report.Waits}); !proto.Equal(shape.AutoSplit, want) {
			t.Errorf("%v, want %v", shape.AutoSplit, want)
		}
		if r.grows.report != nil {
			t.Errorf("without a limit a leader reports %v", r.grows.report)
		}
	})
}
