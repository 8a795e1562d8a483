package replicas

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/shard"
)

// Members makes a change of the replica's group, if one is set, and returns the membership after it.
func (a Answers) Members(ctx context.Context, id uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	s, err := a.Find(id)
	if err != nil {
		return nil, err
	}
	if err := changeMembers(ctx, s, ask); err != nil {
		return nil, err
	}
	m, err := s.Membership()
	if err != nil {
		return nil, err
	}
	return encodeMembership(m), nil
}

func changeMembers(ctx context.Context, s *shard.Shard, ask *clusterpb.MembersCall) error {
	seen := decodeMembership(ask.Seen)
	switch c := ask.Change.(type) {
	case nil:
		return nil
	case *clusterpb.MembersCall_AddNonvoter:
		return s.ChangeMembers(ctx, seen, raftgroup.MemberChange{AddNonvoter: c.AddNonvoter})
	case *clusterpb.MembersCall_AddVoter:
		return s.ChangeMembers(ctx, seen, raftgroup.MemberChange{AddVoter: c.AddVoter})
	case *clusterpb.MembersCall_Remove:
		return s.ChangeMembers(ctx, seen, raftgroup.MemberChange{Remove: c.Remove})
	case *clusterpb.MembersCall_Transfer:
		return s.Transfer(ctx, c.Transfer)
	default:
		return raftgroup.ErrUnfit // a change of a newer build
	}
}

func encodeMembership(m shard.Membership) *clusterpb.Membership {
	encoded := &clusterpb.Membership{Term: m.Term, Committed: m.Committed, Leader: m.Leader}
	for i, member := range m.Members {
		peer := m.Peers[i]
		silence := int64(-1)
		if peer.Silence >= 0 {
			silence = int64(peer.Silence / time.Millisecond)
		}
		encoded.Members = append(encoded.Members, &clusterpb.Member{
			Node: member.NodeID, Voter: member.Voter, SilenceMs: silence, Lag: peer.Lag,
		})
	}
	return encoded
}

func decodeMembership(m *clusterpb.Membership) raftgroup.Membership {
	decoded := raftgroup.Membership{Term: m.GetTerm()}
	for _, member := range m.GetMembers() {
		decoded.Members = append(decoded.Members, raftgroup.Member{NodeID: member.Node, Voter: member.Voter})
	}
	return decoded
}
