package raftgroup

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/copies"
)

// Config names a group and the parts that it uses.
type Config struct {
	Name      string // of the group, for errors: "shard 3"
	NodeID    string // this replica's Raft server id and address; the transport resolves it when it dials
	Machine   Machine
	Storage   Storage // Group.Close closes it
	Transport Transport

	Voters    []string // of a new group; empty: the replica waits for its leader. Ignored if there is state
	Existing  bool     // the replica has had state before: Open fails if it is gone
	Applied   uint64   // the last index that the previous process had applied, as far as known
	Preferred string   // the node that gets a head start in the first election; empty: none

	Timing    Timing
	Snapshots SnapshotConfig
	MaxAppend int   // entries in one request; 0: Raft's default
	LogCache  int64 // bytes of the newest entries kept in memory; 0: none

	Copies copies.Source // of the snapshots that this replica sends; zero: neither limited nor counted

	// Owner is the part that the group works for. Nil: the replica takes part in every election, and writes a snapshot at
	// once and syncs it at its end.
	Owner Owner
	// Fatal is called once, from any goroutine, when the group cannot go on. In production it ends the process.
	// Required.
	Fatal func(error)

	Logger *slog.Logger // default: none
}

// Timing holds Raft's durations.
type Timing struct {
	Heartbeat time.Duration // a follower out of touch for one to two times this becomes a candidate
	Election  time.Duration // a candidate tries again after one to two times this; at least Heartbeat
	Lease     time.Duration // a leader without a majority for this long steps down; at most Heartbeat
	Beat      time.Duration // a leader's heartbeats leave at multiples of this on the wall clock; at least Lease / 5
	Commit    time.Duration // an idle follower learns the last commit within two times this
	HeadStart time.Duration // time for which other nodes leave the first election after a start to the preferred one
	Stuck     time.Duration // running time without an applied entry, during a Commit, that is fatal; 0: never
}

// SnapshotConfig sets when snapshots are due and how much log stays behind them. Entries or Bytes is set, not both.
type SnapshotConfig struct {
	Entries uint64 // Raft takes a snapshot by itself some minutes after this many entries; 0: never
	Bytes   int64  // bytes of log from which Grown has a token; 0: never

	Tail      uint64 // entries kept in the log behind a snapshot, for followers that fell behind briefly
	TailBytes int64  // limit on the bytes of these entries; 0: none
}

// Owner is the part of a process that a group works for.
type Owner interface {
	// Reluctant reports whether the replica leaves elections to others while they may win one.
	Reluctant() bool
	// OnLeader receives each change of leader that this replica notices; an empty leader means none. It must not block.
	OnLeader(leader string, term uint64)
	// Quiesce is called once before Raft stops, to end the owner's work under way.
	Quiesce()
	// Urgency returns how much faster than usual a snapshot must be written: 1 is the usual speed, and from
	// SnapshotLate on its encoding does not rest.
	Urgency() float64
}

// Transport carries Raft's requests between the replicas. Addresses are node ids.
type Transport = raft.Transport

// Storage holds a replica's log, votes and snapshots. *raftdisk.Disk implements it.
type Storage interface {
	Log() raft.LogStore
	Stable() raft.StableStore
	Snapshots() raft.SnapshotStore
	Close() error
}

// failing is a Storage that reports its own failure.
type failing interface{ OnFatal(func(error)) }

func (c Config) withDefaults() (Config, error) {
	c.Timing.Beat = max(c.Timing.Beat, c.Timing.Lease/5) // a lease needs no more heartbeats
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.NodeID == "":
		return errors.New("raft group: no node id")
	case c.Machine == nil || c.Storage == nil || c.Transport == nil || c.Fatal == nil:
		return errors.New("raft group: machine, storage, transport and Fatal are needed")
	case c.Timing.Heartbeat <= 0 || c.Timing.Lease > c.Timing.Heartbeat || c.Timing.Heartbeat > c.Timing.Election:
		return errors.New("raft group: 0 < lease <= heartbeat <= election does not hold")
	}
	return nil
}
