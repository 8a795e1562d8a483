package shard

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// The group's settings. Entries are large, so the limits on numbers of entries are small.
const (
	appendEntries = 32                // entries in one request, at most about 4 MiB
	logCache      = 2 * maxEntryBytes // bytes of the newest entries kept for followers
)

// OpenDisk opens the files of one shard's replica in cfg.Dir. It derives the log's folder and the metrics' label from
// the shard's id.
func OpenDisk(id uint32, cfg raftdisk.Config) (*raftdisk.Disk, error) {
	cfg.LogDir, cfg.Registerer = filepath.Join(cfg.Dir, "log"), Labelled(cfg.Registerer, id)
	return raftdisk.Open(cfg)
}

// openGroup starts Raft.
func (s *Shard) openGroup() (err error) {
	cfg := s.cfg
	voters := make([]string, len(cfg.Replicas))
	for i, r := range cfg.Replicas {
		voters[i] = r.NodeID
	}
	s.group, err = raftgroup.Open(raftgroup.Config{
		Name: fmt.Sprintf("shard %d", cfg.ID), NodeID: cfg.NodeID,
		Machine: s.applier, Storage: cfg.Storage, Transport: cfg.Transport,
		Voters: voters, Existing: cfg.Existing, Applied: cfg.Applied, Preferred: cfg.Preferred,
		Timing: cfg.Timing.Timing, MaxAppend: appendEntries, LogCache: logCache,
		Copies: cfg.Copies,
		Snapshots: raftgroup.SnapshotConfig{
			Bytes: cfg.SnapshotLog, Tail: cfg.SnapshotTail, TailBytes: cfg.SnapshotTailBytes, Urgency: s.snapshotUrgency,
		},
		Reluctant: func() bool { return s.standing.now() != Willing },
		OnLeader:  s.passOnLeader(), Quiesce: s.settleLast, Fatal: cfg.Fatal, Logger: cfg.Logger,
	})
	return err
}

func (s *Shard) passOnLeader() func(leader string, term uint64) {
	if s.cfg.OnLeader == nil {
		return nil
	}
	return func(leader string, term uint64) {
		s.cfg.OnLeader(Change{Shard: s.cfg.ID, Leader: leader, Term: term})
	}
}

// lastEntry is the longest time that a stopping replica waits for its last entry.
const lastEntry = 500 * time.Millisecond

// settleLast lets the entry under way end and queued settles commit before Raft stops.
func (s *Shard) settleLast() {
	l := s.current()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastEntry)
	defer cancel()
	if err := l.proposer.intake.flush(ctx); err != nil {
		s.cfg.Logger.Info("an entry was still out when the replica stopped", "err", err)
	}
}

// Position returns the replica's term and the index of the last entry that Raft gave it to apply.
func (s *Shard) Position() (term, applied uint64) { return s.group.Position() }

// Voters returns the node ids of the group's voters.
func (s *Shard) Voters() []string { return s.group.Voters() }
