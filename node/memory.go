package node

import (
	"context"
	"runtime/debug"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/headroom"
)

// The memory limit is divided by these numbers.
const (
	tombstonePart = 10 // for tombstones
	pendingPart   = 8  // for calls that wait at the shards
)

// limitMemory finds the memory limit, sets it for the runtime, and logs it.
func (n *Node) limitMemory(context.Context) error {
	if n.cfg.Dev {
		return nil // the process is a test's
	}
	found, err := n.cfg.MemoryLimit.Find()
	if err != nil {
		n.log.Warn("this node has no limit to its memory: set --memory-limit or GOMEMLIMIT", "err", err)
		return nil
	}
	if found.Bytes > 0 {
		before := debug.SetMemoryLimit(found.Bytes)
		n.onStop(func() error { debug.SetMemoryLimit(before); return nil })
	}
	n.memory, n.budget = found.Bytes, budgetOf(descriptors(), found.Bytes)
	n.log.Info("memory", "limit", headroom.FormatBytes(uint64(found.Bytes)), "from", found.From)
	n.log.Info("connections", "attempts", n.budget.attempts, "callers", n.budget.calls)
	return nil
}

// devTombstones is the number of bytes for the tombstones of a node in dev mode, which has no memory limit: about
// 200,000 tasks.
const devTombstones = 64 << 20

// shareMemory divides the limit, in bytes, among the parts of the cluster. A limit of 0 leaves them unbounded, except
// for the tombstones in dev mode.
func shareMemory(cfg *cluster.Config, limit int64) {
	cfg.MemoryLimit, cfg.TombstoneBytes = limit, limit/tombstonePart
	switch {
	case limit > 0:
		cfg.MaxPending = pendingBytes(limit, cfg.Shards)
	case cfg.DevClock != nil:
		cfg.TombstoneBytes = devTombstones
	}
}

// pendingBytes returns the number of bytes of calls that may wait at one shard.
func pendingBytes(limit int64, shards int) int64 {
	const least, most = 1 << 20, 16 << 20
	return min(max(limit/pendingPart/int64(max(shards, 1)), least), most)
}
