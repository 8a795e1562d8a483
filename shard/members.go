package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/raftgroup"
)

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
