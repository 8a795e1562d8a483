package shard

import (
	"context"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/install"
)

// Status describes one replica and its view of the group.
type Status struct {
	ID     uint32
	Leader string // node id; empty: none known
	Term   uint64
	State  string // leader, follower, candidate or shutdown

	Applied  uint64 // Raft index of the last entry that the machine has applied
	Commands uint64 // commands applied up to that entry, in the shard's life
	Hash     uint64 // hash of the state after that entry
	Counts   fsm.Counts

	Arriving install.Arriving // leader's snapshot
}

// Status describes this replica.
func (s *Shard) Status() Status {
	raft, at := s.group.Stats(), s.applier.checkpoints.newest()
	return Status{
		ID: s.cfg.ID, Leader: raft.Leader, Term: raft.Term, State: raft.Role,
		Applied: at.Index, Commands: at.Commands, Hash: at.Sum, Counts: s.machine.Counts(),
		Arriving: s.group.Arriving(),
	}
}

// Leader returns the leader that this replica knows of, empty if none, and the replica's current term.
func (s *Shard) Leader() (nodeID string, term uint64) { return s.group.Leader() }

// IsLeader reports whether this node leads the shard and answers calls. Another node may have deposed it unnoticed.
func (s *Shard) IsLeader() bool {
	l := s.current()
	return l != nil && l.term.Load() > 0
}

// Lead returns the term in which this node leads the shard, once the leadership answers calls. The error is a
// *task.NotLeaderError or the context's.
func (s *Shard) Lead(ctx context.Context) (term uint64, err error) {
	l, err := s.leadership(ctx)
	if err == nil {
		err = l.awaitReady(ctx)
	}
	if err != nil {
		return 0, err
	}
	return l.term.Load(), nil
}

// StillLead proves that this node leads the shard at a time after the call, by asking the other replicas. Lead does
// not: a leader that was cut off believes in itself for a moment. The error is a *task.NotLeaderError or the context's.
func (s *Shard) StillLead(ctx context.Context) error {
	_, err := readAs(ctx, s, false, func() (struct{}, error) { return struct{}{}, nil })
	return err
}

// Use returns the use of a namespace in this replica's applied state.
func (s *Shard) Use(namespace string) task.NamespaceUse { return s.machine.NamespaceUse(namespace) }

// Drops returns the number of times that tasks have left this replica with their slots: see fsm.Machine.Drops.
func (s *Shard) Drops() uint64 { return s.machine.Drops() }

// TaskUse returns the bytes that a task counts with in this replica's applied state, and reports whether the task is
// not done.
func (s *Shard) TaskUse(namespace, id string) (bytes int, pending bool) {
	return s.machine.TaskUse(namespace, id)
}

// Memory returns the memory of the replica's machine in bytes: see fsm.Counts.
func (s *Shard) Memory() (held, free, coming int64) {
	c := s.machine.Counts()
	return c.Bytes, c.Free, c.Coming
}

// Remembers reports whether a command repeats a call that this replica's applied state remembers. Such a command gets
// the kept answer, and changes nothing.
func (s *Shard) Remembers(cmd *fsmpb.Command) bool { return s.machine.Remembers(cmd) }

// ID returns the shard's id.
func (s *Shard) ID() uint32 { return s.cfg.ID }

// Newest returns the fingerprint after the last entry that the machine has applied.
func (s *Shard) Newest() Checkpoint { return s.applier.checkpoints.newest() }

// Standing returns this replica's fitness to lead.
func (s *Shard) Standing() Standing { return s.standing.now() }

// Checkpoints returns the kept fingerprints at fixed Raft indexes of at least from, and the newest fingerprint, by
// rising index.
func (s *Shard) Checkpoints(from uint64) []Checkpoint { return s.applier.checkpoints.from(from) }

// CheckpointAt returns the fingerprint at one Raft index; ok is false if none is kept.
func (s *Shard) CheckpointAt(index uint64) (_ Checkpoint, ok bool) {
	return s.applier.checkpoints.at(index)
}

// Restores returns how often a snapshot replaced this replica's state, its start from a snapshot included.
func (s *Shard) Restores() uint64 { return s.applier.restores.Load() }

// HasCaughtUp reports whether this replica has held all that its leader had acknowledged, at some time since its start.
// A leader has.
func (s *Shard) HasCaughtUp() bool {
	if !s.caughtUp.Load() && s.group.HasCaughtUp() {
		s.caughtUp.Store(true)
	}
	return s.caughtUp.Load()
}
