package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/quotas"
	"github.com/belfryhq/belfry/quota"
	"github.com/belfryhq/belfry/shard"
)

// Quotas returns the quotas of the cluster, to keep calls on this node within them.
func (n *Node) Quotas() *quotas.Quotas { return n.quotas }

func (n *Node) newQuotas() *quotas.Quotas {
	return quotas.New(quotas.Config{
		Self: n.ID(), Trip: quotaTrip(n.cfg.Timing), Now: time.Now,
		Limits: func(namespace string) quota.Limits {
			known, _ := n.tenants.Namespace(namespace)
			return quota.Limits(known.Quotas)
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
			return calls.Ask[*clusterpb.QuotaReply](ctx, n.at(node), 0, call)
		},
	})
}

// quotaTrip returns the longest wait for another node's answer about a quota: half of Timing.Heartbeat, which is longer
// than a round trip between the farthest nodes that the timing allows.
func quotaTrip(t shard.Timing) time.Duration { return max(t.Heartbeat/2, 100*time.Millisecond) }

// memberIDs returns the ids of the nodes of the cluster.
func (n *Node) memberIDs() (ids []string) {
	for _, node := range n.control.State().GetNodes() {
		ids = append(ids, node.Id)
	}
	return ids
}
