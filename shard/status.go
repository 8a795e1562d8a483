package shard

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup"
)

// Status is what one replica knows of itself and its group.
type Status struct {
	ID     uint32
	NodeID string
	Leader string // empty: none known
	Term   uint64
	State  string // leader, follower, candidate or shutdown
	Voters []string

	Applied     uint64 // Raft index of the last entry that the machine has applied,
	Commands    uint64 // how many commands it had applied then, in the shard's life,
	Hash        uint64 // and its state's hash
	Counts      fsm.Counts
	Standing    Standing
	Position    time.Time
	LogBytes    uint64 // appended since the start
	CaughtUp    bool
	LastContact time.Time // follower: when it last heard from its leader; zero: never

	// Of the leader only.
	Open      bool // the Takeover is done, and calls are answered
	Pending   int64
	Running   int // attempts
	CommitP50 time.Duration
	CommitP99 time.Duration
	Horizon   time.Duration
	Peers     []PeerStatus
}

// PeerStatus is another voter as the leader sees it.
type PeerStatus struct {
	NodeID  string
	Contact time.Time // when the last request left that it answered; zero: none in this term
	Lag     uint64    // log entries that it lacked then
}

// Status describes this replica.
func (s *Shard) Status() Status {
	raft, at := s.group.Stats(), s.applier.checkpoints.newest()
	st := Status{
		ID: s.cfg.ID, NodeID: s.cfg.NodeID, Leader: raft.Leader, Term: raft.Term,
		State: raft.Role, Voters: s.Voters(),
		Applied: at.Index, Commands: at.Commands, Hash: at.Sum, Counts: s.machine.Counts(), Standing: s.standing.now(),
		Position: time.UnixMilli(s.machine.Position()), LogBytes: s.cfg.Storage.Bytes(),
		LastContact: raft.Contact, Running: s.attempts.count(), Horizon: s.latencies.horizon(),
	}
	st.CommitP50, st.CommitP99 = s.latencies.p50p99()
	select {
	case <-s.caughtUp:
		st.CaughtUp = true
	default:
	}
	if l := s.current(); l != nil {
		st.Open = l.term.Load() > 0
		st.Pending = l.proposer.intake.pendingBytes()
		st.Peers = s.peers(st.Voters, st.Term)
	}
	return st
}

func (s *Shard) peers(voters []string, term uint64) []PeerStatus {
	var peers []PeerStatus
	for _, node := range voters {
		if node == s.cfg.NodeID {
			continue
		}
		p := s.group.Peer(node, term)
		peers = append(peers, PeerStatus{NodeID: node, Contact: p.Contact, Lag: p.Lag})
	}
	return peers
}

// Leader returns the leader that this replica knows of, empty if none, and its own current term.
func (s *Shard) Leader() (nodeID string, term uint64) { return s.group.Leader() }

// IsLeader tells whether this node leads the shard and answers calls. It may have been deposed without knowing yet.
func (s *Shard) IsLeader() bool {
	l := s.current()
	return l != nil && l.term.Load() > 0
}

// ID is the shard's.
func (s *Shard) ID() uint32 { return s.cfg.ID }

// Applied is the Raft index of the last entry that the machine has applied.
func (s *Shard) Applied() uint64 { return s.applier.checkpoints.newest().Index }

// Standing is how fit this replica is to lead.
func (s *Shard) Standing() Standing { return s.standing.now() }

// Checkpoints returns the fingerprints of the machine at fixed Raft indexes from this one on, as far as they are kept,
// and the newest of all, by rising index.
func (s *Shard) Checkpoints(from uint64) []Checkpoint { return s.applier.checkpoints.from(from) }

// CheckpointAt returns the fingerprint at one Raft index; ok is false if none is kept.
func (s *Shard) CheckpointAt(index uint64) (_ Checkpoint, ok bool) {
	return s.applier.checkpoints.at(index)
}

// Restores is how often this replica's state was replaced by a snapshot's, the one that it started from included.
func (s *Shard) Restores() uint64 { return s.applier.restores.Load() }

// CaughtUp is closed once this replica has held, at some time since its start, what its leader had acknowledged.
func (s *Shard) CaughtUp() <-chan struct{} { return s.caughtUp }

const (
	caughtUpPoll = 50 * time.Millisecond
	// recently: an entry that its leader appended so short a time ago is news, not history.
	recently = time.Second
)

// awaitCaughtUp closes caughtUp. There is no message that says so, hence two signs: entries that arrive are fresh, or
// none arrive although the leader is there and everything is applied.
func (s *Shard) awaitCaughtUp(ctx context.Context) {
	quiet := 0 // polls in a row without news
	var last uint64
	for sleep(ctx, caughtUpPoll) {
		if s.IsLeader() {
			close(s.caughtUp)
			return
		}
		now := s.group.Stats()
		if now.Last == last && isIdleFollower(now) {
			quiet++
		} else {
			quiet = 0
		}
		last = now.Last
		if s.isFresh(now) || time.Duration(quiet)*caughtUpPoll > 3*s.cfg.Timing.Commit {
			close(s.caughtUp)
			return
		}
	}
}

// isIdleFollower reports whether a replica is in touch with a leader and has applied every entry that it knows to be
// committed.
func isIdleFollower(s raftgroup.Stats) bool {
	return s.Leader != "" && s.Role == "follower" && !s.Contact.IsZero() &&
		s.Committed > 0 && s.Taken >= s.Committed && s.Last == s.Committed
}

// isFresh reports whether the last entry applied is news, and no committed entry is left.
func (s *Shard) isFresh(now raftgroup.Stats) bool {
	return now.Leader != "" && !now.AppendedAt.IsZero() && time.Since(now.AppendedAt) < recently &&
		s.applier.index.Load() >= now.Committed
}
