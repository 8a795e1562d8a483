package raftgroup

import (
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
)

// Config names a group and the parts that it runs on.
type Config struct {
	Name      string // of the group, for errors: "shard 3"
	NodeID    string // this replica's server id, and its Raft address: the transport resolves it when it dials
	Machine   Machine
	Storage   Storage // Close closes it
	Transport Transport

	Voters    []string // of a new group; empty: the replica waits for its leader. Ignored where there is state
	Existing  bool     // the replica has had state before: Open fails if there is none
	Applied   uint64   // index of the last entry that the process before had applied, as far as is known
	Preferred string   // the node that gets a head start in the first election; empty: none

	Timing    Timing
	Snapshots SnapshotConfig
	MaxAppend int   // entries in one request; 0: Raft's default
	LogCache  int64 // bytes of the newest entries that are kept in memory; 0: none are

	// Reluctant reports whether the replica should leave elections to others while they may win one. nil: it should not.
	Reluctant func() bool
	// OnLeader is called for each change of leader that this replica notices; an empty leader means none. It must not
	// block. nil: it is not called.
	OnLeader func(leader string, term uint64)
	// Quiesce is called once before Raft stops, and ends what the owner has under way. nil: there is nothing.
	Quiesce func()
	// Fatal is called once when the group cannot go on, from any goroutine. In production it ends the process. Required.
	Fatal func(error)

	Logger *slog.Logger // default: none
}

// Timing holds the durations that Raft runs with.
type Timing struct {
	Heartbeat time.Duration // a follower that hears nothing for one to two times this long becomes a candidate
	Election  time.Duration // a candidate tries again after one to two times this long; at least Heartbeat
	Lease     time.Duration // a leader without a majority for this long steps down; at most Heartbeat
	Beat      time.Duration // a leader sends its heartbeats one to two times this long apart; 0: a tenth of Heartbeat
	Grid      time.Duration // heartbeats wait for the next multiple of this on the wall clock; 0: they do not wait
	Commit    time.Duration // an idle follower learns of the last commit within two times this long
	HeadStart time.Duration // how long others leave the first election after a start to the preferred node
	Stuck     time.Duration // a leader that applies nothing in this running time during a Commit is fatal; 0: never
}

// SnapshotConfig says when snapshots are due and how much log stays behind them. Of Entries and Bytes one is set.
type SnapshotConfig struct {
	Entries uint64 // Raft takes a snapshot by itself, within some minutes after this many entries; 0: it takes none
	Bytes   int64  // bytes of log from which on Grown has a token; 0: never

	Tail      uint64 // entries that stay in the log behind a snapshot, for followers that were away a moment
	TailBytes int64  // the most that these may come to: fewer large ones stay; 0: no bound

	// Urgency says how much faster than usual a snapshot must be written: 1 is as usual, SnapshotLate and more without
	// rests for its encoding. nil: it is written at once, and brought to the disk at its end.
	Urgency func() float64
}

// Transport carries Raft's requests between the replicas. Addresses are node ids.
type Transport = raft.Transport

// Storage is what a replica remembers. *raftdisk.Disk is one.
type Storage interface {
	Log() raft.LogStore
	Stable() raft.StableStore
	Snapshots() raft.SnapshotStore
	Bytes() uint64 // of log, as far as it was appended by this process
	Close() error
}

// failing is a Storage that reports by itself that it failed.
type failing interface{ OnFatal(func(error)) }

func (c Config) withDefaults() (Config, error) {
	c.Timing = c.Timing.WithDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

// WithDefaults returns t with the default of Beat, if that is zero.
func (t Timing) WithDefaults() Timing {
	if t.Beat == 0 {
		t.Beat = t.Heartbeat / beats
	}
	return t
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
