package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/compare"
	"github.com/belfryhq/belfry/shard"
)

func (n *Node) newComparer() *compare.Comparer {
	return compare.New(compare.Config{
		Self: n.ID(), Replicas: n.comparedReplicas, Judged: n.setStandings,
		Ask: func(ctx context.Context, node string, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
			return n.peers.get(node).rpc.Compare(ctx, r)
		},
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

func (n *Node) comparedReplicas() []compare.Replica {
	var replicas []compare.Replica
	for _, s := range n.hosts.all() {
		replicas = append(replicas, s)
	}
	return replicas
}

// setStandings tells each replica here whether it may lead.
func (n *Node) setStandings() {
	for _, s := range n.hosts.all() {
		switch {
		case n.comparer.Outvoted(s.ID()):
			s.SetStanding(shard.Barred)
		case n.clockApart.Load():
			s.SetStanding(shard.Reluctant)
		default:
			s.SetStanding(shard.Willing)
		}
	}
}

// mayLead is a hint for giving a shard's leadership to a node.
func (n *Node) mayLead(id uint32, node string) bool {
	return n.isAlive(node) && n.clocks.Near(node) && n.comparer.MayLead(id, node)
}

func (s service) Compare(_ context.Context, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
	return s.n.comparer.Report(r), nil
}
