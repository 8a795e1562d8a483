package control

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/headroom"
)

// AutoSplit is the size from which on a shard splits by itself.
type AutoSplit struct {
	Bytes  uint64 // memory of a shard's tasks; 0: no shard splits by itself
	Shards int    // number of shards from which on none splits by itself; 0: DefaultAutoShards
}

// DefaultAutoShards is the number of shards from which on none splits by itself, unless a setting says otherwise.
const DefaultAutoShards = 64

// The times of automatic splits, in units of the time of calm, which is ten seconds.
const (
	settledAfter = 6   // after the end of an operation on slots
	stoppedFor   = 360 // after an automatic split was stopped by an operator
)

// Census is the report of the nodes that answer about the size of their replicas, and about their room.
type Census struct {
	Bytes map[uint32]uint64 // memory of each shard's tasks, on the replica where they take most
	Room  map[string]Room   // by node
}

// Room is the number of bytes that a node can take before it takes no more tasks.
type Room struct{ Memory, Disk uint64 }

// growth is the view on which the rule of automatic splits decides.
type growth struct {
	state  *clusterpb.ControlState
	limits AutoSplit
	census Census
	grown  map[uint32]time.Duration // for how long shards have been above the limit
	up     func(node string) bool
	calm   time.Duration
	now    time.Time
}

// outgrown returns the shards above the limit, the largest first.
func (g growth) outgrown() []uint32 {
	var ids []uint32
	for _, s := range g.state.Shards {
		if g.census.Bytes[s.Id] > g.limits.Bytes {
			ids = append(ids, s.Id)
		}
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(g.census.Bytes[b], g.census.Bytes[a]) })
	return ids
}

// next returns the shard to split, or 0. Then waits is the reason why no shard splits although one is above the limit.
func (g growth) next() (shard uint32, waits string) {
	outgrown := g.outgrown()
	if len(outgrown) == 0 {
		return 0, ""
	}
	for _, rule := range []func() string{g.tooMany, g.busy, g.moving, g.unsettled, g.incomplete} {
		if waits := rule(); waits != "" {
			return 0, waits
		}
	}
	for _, id := range outgrown {
		why := g.unfit(id)
		if why == "" {
			return id, ""
		}
		waits = cmp.Or(waits, why)
	}
	return 0, waits
}

func (g growth) tooMany() string {
	if len(g.state.Shards) >= g.limits.Shards {
		return fmt.Sprintf("there are %d shards, and --auto-split-shards is %d", len(g.state.Shards), g.limits.Shards)
	}
	return ""
}

func (g growth) busy() string {
	for _, op := range g.state.Operations {
		if op.State == clusterpb.OperationState_OPERATION_STATE_RUNNING && !onNamespace(op) {
			return fmt.Sprintf("operation %s is under way", op.Id)
		}
	}
	return ""
}

func (g growth) moving() string {
	if len(g.state.SlotMoves) > 0 {
		return "slots are on the move"
	}
	for _, s := range g.state.Shards {
		if len(s.Target) > 0 || len(s.Replicas) == 0 {
			return fmt.Sprintf("the replicas of shard %d are on the move", s.Id)
		}
	}
	return ""
}

// unsettled waits until the sizes after the last operation on slots are known, and longer if an operator has stopped an
// automatic split. The ends of operations are in the log, so that a new leader waits as long.
func (g growth) unsettled() string {
	for _, op := range g.state.Operations {
		if !onSlots(op) || op.EndedMs == 0 {
			continue
		}
		pause := settledAfter * g.calm
		if op.Cause != "" && op.State == clusterpb.OperationState_OPERATION_STATE_STOPPED {
			pause = stoppedFor * g.calm
		}
		if left := pause - g.now.Sub(time.UnixMilli(op.EndedMs)); left > 0 {
			return fmt.Sprintf("operation %s has ended, and none follows it for %v", op.Id, left.Round(time.Second))
		}
	}
	return ""
}

// incomplete waits for all nodes, because a split needs every replica, and a lost node's replicas are copied first.
func (g growth) incomplete() string {
	for _, n := range g.state.Nodes {
		if _, answers := g.census.Room[n.Id]; !answers || !g.up(n.Id) {
			return fmt.Sprintf("node %s is away", n.Id)
		}
	}
	return ""
}

// unfit returns the reason why a shard above the limit does not split now, or "". A move of slots takes the memory of
// its tasks a second time, and the disk for them in the log and in a snapshot.
func (g growth) unfit(id uint32) string {
	moved := g.census.Bytes[id] / 2
	switch {
	case g.grown[id] < g.calm:
		return fmt.Sprintf("shard %d has been above the limit for less than %v", id, g.calm)
	case owned(g.state.Slots, id) < 2:
		return fmt.Sprintf("shard %d has one slot, and a slot cannot be split", id)
	}
	for _, node := range Shard(g.state, id).Replicas {
		switch room := g.census.Room[node]; {
		case room.Memory < moved:
			return fmt.Sprintf("node %s has no memory for the copy of half of shard %d, %s", node, id,
				headroom.FormatBytes(moved))
		case room.Disk < 2*moved:
			return fmt.Sprintf("node %s has no disk space for the copy of half of shard %d, %s", node, id,
				headroom.FormatBytes(2*moved))
		}
	}
	return ""
}

// cause says why a shard is split.
func (g growth) cause(id uint32) string {
	return fmt.Sprintf("shard %d has %s of tasks, and --auto-split is %s", id, headroom.FormatBytes(g.census.Bytes[id]),
		headroom.FormatBytes(g.limits.Bytes))
}

// NoBound is the room of a node without a bound.
const NoBound = math.MaxUint64
