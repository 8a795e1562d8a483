package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/replicas"
)

// allShards stands for all shards in the Shard field of an AppliedRequest.
const allShards = 0

// reports makes the reports on the replicas here that the leader of the control group asks for again and again. Each
// has only the fields that the leader needs.
type reports struct {
	self     string // node id
	replicas *replicas.Set
	health   *health.Nodes
}

func (n *Node) reports() reports {
	return reports{self: n.ID(), replicas: n.replicas, health: n.health}
}

// faults returns the replicas here that are outvoted or cannot be opened.
func (r reports) faults() *clusterpb.FaultsReply {
	reply := &clusterpb.FaultsReply{}
	add := func(shard uint32, reason string) {
		reply.Faults = append(reply.Faults, &clusterpb.ReplicaFault{Shard: shard, Reason: reason})
	}
	for _, s := range r.replicas.All() {
		if r.health.Outvoted(s.ID(), r.self) {
			add(s.ID(), "its state differs from the others'")
		}
	}
	for shard, reason := range r.replicas.Broken() {
		add(shard, reason)
	}
	return reply
}

// applied returns how far the replica of a shard here is that joined at a revision, or how far all replicas are.
func (r reports) applied(of *clusterpb.AppliedRequest) *clusterpb.AppliedReply {
	reply := &clusterpb.AppliedReply{}
	for _, s := range r.replicas.All() {
		if of.Shard == allShards || of.Shard == s.ID() && r.replicas.HasJoined(s.ID(), of.Joined) {
			at := s.Newest()
			reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaApplied{
				Shard: s.ID(), Index: at.Index, Commands: at.Commands,
			})
		}
	}
	return reply
}

// Faults answers the leader of the control group.
func (s service) Faults(context.Context, *clusterpb.FaultsRequest) (*clusterpb.FaultsReply, error) {
	return s.n.reports().faults(), nil
}

// Applied answers the leader of the control group.
func (s service) Applied(_ context.Context, r *clusterpb.AppliedRequest) (*clusterpb.AppliedReply, error) {
	return s.n.reports().applied(r), nil
}
