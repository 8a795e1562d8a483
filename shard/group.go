package shard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
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
			Bytes: cfg.SnapshotLog, Tail: cfg.SnapshotTail, TailBytes: cfg.SnapshotTailBytes,
		},
		Owner: owner{s}, Fatal: cfg.Fatal, Logger: cfg.Logger,
	})
	return err
}

// owner is a shard as the owner of its group.
type owner struct{ shard *Shard }

// Reluctant reports whether this replica is not willing to lead.
func (o owner) Reluctant() bool { return o.shard.standing.now() != Willing }

// OnLeader passes a change of leader on.
func (o owner) OnLeader(leader string, term uint64) {
	o.shard.cfg.Node.OnLeader(Change{Shard: o.shard.cfg.ID, Leader: leader, Term: term})
}

// Urgency returns how far the log has outgrown the size that makes a snapshot due. A node without memory for more tasks
// has the highest urgency: memory freed during a snapshot stays in use until the snapshot is done.
func (o owner) Urgency() float64 {
	if errors.Is(o.shard.lacking(), task.ErrNoMemory) {
		return raftgroup.SnapshotLate
	}
	return o.shard.snapshots.outgrown()
}

// lastEntry is the longest time that a stopping replica waits for its last entry.
const lastEntry = 500 * time.Millisecond

// Quiesce lets the entry under way end and queued settles commit before Raft stops.
func (o owner) Quiesce() {
	s := o.shard
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

// Applied returns the index of a committed entry up to which this replica has applied all.
func (s *Shard) Applied() uint64 { return s.group.Applied() }

// Voters returns the node ids of the group's voters.
func (s *Shard) Voters() []string { return s.group.Voters() }

// Silence returns how long this replica has neither led nor heard a leader.
func (s *Shard) Silence() time.Duration { return s.group.Silence() }

// Membership describes the shard's group in the view of its leader.
type Membership struct {
	raftgroup.Membership
	Leader    string       // this node
	Committed uint64       // index of the last committed entry
	Peers     []MemberPeer // in the order of Members
}

// MemberPeer is the leader's knowledge of one member.
type MemberPeer struct {
	Silence time.Duration // since the leader sent the newest request that the member answered; -1: none in this term
	Lag     uint64        // log entries that the member lacks, as far as known
}

// Membership returns the membership of the group. Only the leader knows it; on another replica the error is a
// *task.NotLeaderError. While a change is under way, the error wraps raftgroup.ErrUnfit.
func (s *Shard) Membership(ctx context.Context) (Membership, error) {
	known, err := s.group.Membership(ctx)
	if errors.Is(err, raftgroup.ErrNotLeader) {
		return Membership{}, s.notLeader()
	}
	if err != nil {
		return Membership{}, fmt.Errorf("shard %d: %w", s.cfg.ID, err)
	}
	m := Membership{Membership: known, Leader: s.cfg.NodeID, Committed: s.group.Stats().Committed}
	for _, member := range known.Members {
		m.Peers = append(m.Peers, s.memberPeer(member.NodeID, known.Term))
	}
	return m, nil
}

func (s *Shard) memberPeer(node string, term uint64) MemberPeer {
	if node == s.cfg.NodeID {
		return MemberPeer{}
	}
	peer := s.group.Peer(node, term)
	if peer.Contact.IsZero() {
		return MemberPeer{Silence: -1, Lag: peer.Lag}
	}
	return MemberPeer{Silence: time.Since(peer.Contact), Lag: peer.Lag}
}

// ChangeMembers makes one change of the membership that the caller has seen; see raftgroup.Group.ChangeMembers. The
// error is a *task.NotLeaderError or wraps raftgroup.ErrUnfit if nothing has changed, and is another one if that is not
// known.
func (s *Shard) ChangeMembers(ctx context.Context, seen raftgroup.Membership, change raftgroup.MemberChange) error {
	err := s.group.ChangeMembers(ctx, seen, change)
	if errors.Is(err, raftgroup.ErrNotLeader) {
		return s.notLeader()
	}
	if err != nil {
		return fmt.Errorf("shard %d: %w", s.cfg.ID, err)
	}
	return nil
}
