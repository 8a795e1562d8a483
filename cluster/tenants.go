package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/membership"
	"github.com/belfryhq/belfry/cluster/quotas"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/shard"
)

// KeysOnDisk returns the keys that the node of a data folder knew last, for calls before Open. It returns nil if the
// folder has none: the node is new, or Open reports why the folder cannot be read.
func KeysOnDisk(dir string, log *slog.Logger) access.Source {
	id, err := membership.InspectIdentity(dir)
	if err != nil {
		return nil
	}
	if err := id.Close(); err != nil {
		log.Warn("the lock of the data folder could not be given back", "err", err)
	}
	known := tenants.New(tenants.Config{Dir: dir, Identity: id, Logger: log})
	if known.KeysVersion() == 0 {
		return nil
	}
	return known
}

// Tenants returns the API keys and the namespaces of the cluster, to read and to change on this node.
func (n *Node) Tenants() *tenants.Tenants { return n.tenants }

// Quotas returns the quotas of the cluster, to keep calls on this node within them.
func (n *Node) Quotas() *quotas.Quotas { return n.quotas }

// quotaTrip returns the longest wait for another node's answer about a quota: half of Timing.Heartbeat, which is longer
// than a round trip between the farthest nodes that the timing allows.
func quotaTrip(t shard.Timing) time.Duration { return max(t.Heartbeat/2, 100*time.Millisecond) }

// tasks gives the leader of the control group access to the tasks of namespaces that are being deleted.
type tasks struct{ *Node }

// Count returns the number of tasks in a namespace, tombstones included. It leaves out queues without a policy beyond
// the first 4096 of a shard.
func (t tasks) Count(ctx context.Context, namespace string) (uint64, error) {
	queues, err := t.router.Queues(ctx, &clusterpb.QueuesCall{Namespace: namespace, All: true})
	sum := uint64(0)
	for _, q := range queues {
		sum += q.Scheduled + q.Ready + q.Firing + q.Leased + q.Retrying + q.Delivered + q.Dead + q.Cancelled
	}
	return sum, err
}

// AwaitAt waits until a node knows a version of the keys and namespaces.
func (t tasks) AwaitAt(ctx context.Context, node string, version uint64) error {
	return allNodes{t.Node}.Await(ctx, node, &clusterpb.AwaitRequest{Access: version})
}
