package cluster

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/compare"
)

func (n *Node) newComparer() *compare.Comparer {
	return compare.New(compare.Config{
		Self: n.ID(), Replicas: n.comparedReplicas, DiskLow: n.disk.Low, MemoryFull: n.memory.Full,
		Judged: n.setStandings,
		Ask: func(ctx context.Context, node string, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
			return n.peers.get(node).rpc.Compare(ctx, r)
		},
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

func (n *Node) comparedReplicas() []compare.Replica {
	var replicas []compare.Replica
	for _, s := range n.replicas.All() {
		replicas = append(replicas, s)
	}
	return replicas
}

func (s service) Compare(_ context.Context, r *clusterpb.CompareRequest) (*clusterpb.CompareReply, error) {
	return s.n.comparer.Report(r), nil
}
