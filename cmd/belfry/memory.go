package main

import (
	"fmt"
	"runtime/debug"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/memory"
)

// Parts of what the node may use. Where that is not known there is no bound.
const (
	tombstoneShare = 10 // for what has ended
	pendingShare   = 8  // for calls that wait at the shards
)

// limitMemory finds out how much memory the node may use, and tells the runtime and whoever reads the log.
func (n *node) limitMemory() error {
	limit, err := memory.ParseLimit(n.flags.memoryLimit)
	if err != nil {
		return &usageError{fmt.Errorf("--memory-limit: %w", err)}
	}
	found, err := limit.Find()
	if err != nil {
		n.log.Warn("this node has no limit to its memory: set --memory-limit or GOMEMLIMIT", "err", err)
		return nil
	}
	if found.Bytes > 0 {
		debug.SetMemoryLimit(found.Bytes)
	}
	n.memory = found.Bytes
	n.log.Info("memory", "limit", disk.Size(uint64(found.Bytes)), "from", found.From)
	return nil
}

// shareMemory says what of the node's memory its parts may take.
func shareMemory(cfg *cluster.Config, limit int64) {
	cfg.MemoryLimit, cfg.TombstoneBytes = limit, limit/tombstoneShare
	if limit > 0 {
		cfg.MaxPending = pendingBytes(limit, cfg.Shards)
	}
}

// pendingBytes is how much may wait at one shard: all together an eighth of the memory.
func pendingBytes(limit int64, shards int) int64 {
	const least, most = 1 << 20, 16 << 20
	return min(max(limit/pendingShare/int64(max(shards, 1)), least), most)
}
