package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
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
		Nodes:     func() int { return len(n.control.State().GetNodes()) },
		Replica:   func(shard uint32) (quotas.Replica, error) { return n.replicas.Find(shard) },
		Slots:     func() map[uint32]int64 { return n.router.SlotCounts() },
		Owner: func(ctx context.Context, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
			return n.router.AskOwner(ctx, call)
		},
		Shard: func(ctx context.Context, shard uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
			return n.router.AskShard(ctx, shard, call)
		},
	})
}
