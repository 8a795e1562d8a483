package replicas

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/shard"
)

// members makes a change of the replica's group, if one is set, and returns the membership after it. After a transfer
// of the leadership the membership is empty. The error wraps raftgroup.ErrUnfit if the change does not fit.
func members(ctx context.Context, s *shard.Shard, ask *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	if to, transfer := ask.Change.(*clusterpb.MembersCall_Transfer); transfer {
		return &clusterpb.Membership{}, transferTo(ctx, s, to.Transfer) // this replica leads no more
	}
	if err := changeMembers(ctx, s, ask); err != nil {
		return nil, err
	}
	m, err := s.Membership(ctx)
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
	default:
		return raftgroup.ErrUnfit // a change of a newer build
	}
}

// transferTo gives the leadership to a node. A call that comes again after it had its effect finds the node leading.
func transferTo(ctx context.Context, s *shard.Shard, node string) error {
	if m, err := s.Membership(ctx); err == nil && m.Leader == node {
		return nil
	}
	return s.Transfer(ctx, node)
}

func encodeMembership(m shard.Membership) *clusterpb.Membership {
	encoded := &clusterpb.Membership{Term: m.Term, Changes: m.Changes, Committed: m.Committed, Leader: m.Leader}
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
	decoded := raftgroup.Membership{Term: m.GetTerm(), Changes: m.GetChanges()}
	for _, member := range m.GetMembers() {
		decoded.Members = append(decoded.Members, raftgroup.Member{NodeID: member.Node, Voter: member.Voter})
	}
	return decoded
}

// Founders returns the voters with which a shard's group begins: the replicas that it was first placed on. A replica
// that is opened for the first time after a change of them waits for the shard's leader.
func Founders(s *clusterpb.Shard) []shard.Replica {
	if s.Revision > 0 {
		return nil
	}
	var all []shard.Replica
	for _, id := range s.Replicas {
		all = append(all, shard.Replica{NodeID: id})
	}
	return all
}
