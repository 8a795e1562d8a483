package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/quotas"
	"github.com/belfryhq/belfry/quota"
)

// Quotas returns the quotas of the cluster, to keep calls on this node within them.
func (n *Node) Quotas() *quotas.Quotas { return n.quotas }

func (n *Node) newQuotas() *quotas.Quotas {
	return quotas.New(quotas.Config{
		Self: n.ID(), Now: time.Now,
		Limits: func(namespace string) quota.Limits {
			known, _ := n.tenants.Namespace(namespace)
			return known.Limits
		},
		KeyLimits: func(id string) quota.Limits { return n.tenants.KeyLimits(id) },
		Members:   n.memberIDs, Alive: n.health.Alive,
		Replica: func(shard uint32) (quotas.Replica, error) { return n.replicas.Find(shard) },
		Slots:   func() map[uint32]int64 { return n.router.SlotCounts() },
		Epoch:   func(s quota.Subject) uint64 { return n.router.QuotaEpoch(s) },
		Policies: func(namespace string) (names []string) {
			for _, p := range control.Queues(n.control.State(), namespace) {
				names = append(names, p.Queue)
			}
			return names
		},
		Owner: func(ctx context.Context, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
			return n.router.AskOwner(ctx, call)
		},
		Shard: func(ctx context.Context, shard uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
			return n.router.AskShard(ctx, shard, call)
		},
		Node: func(ctx context.Context, node string, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
			return n.peers.calls(node).Quota(ctx, 0, call)
		},
	})
}

// memberIDs returns the ids of the nodes of the cluster.
func (n *Node) memberIDs() (ids []string) {
	for _, node := range n.control.State().GetNodes() {
		ids = append(ids, node.Id)
	}
	return ids
}
