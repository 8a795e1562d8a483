package node

import (
	"context"
	"io"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/quota"
)

// backend adapts a node of the cluster to the interface of the HTTP API. Neither package knows the other.
type backend struct {
	*cluster.Node
	*tenants.Tenants
	*control.Policies
	*control.Tokens
	*cluster.Operations
}

var _ httpapi.Backend = backend{}

func newBackend(n *cluster.Node) backend {
	return backend{n, n.Tenants(), n.Policies(), n.Tokens(), n.Operations()}
}

// List reads through the leaders, so that a list shows all tasks acknowledged before it.
func (b backend) List(ctx context.Context, q *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
	return b.Node.List(ctx, q, false)
}

func (b backend) Self() (clusterID, nodeID string) { return b.ClusterID(), b.ID() }

func (b backend) Backup(ctx context.Context, w io.Writer, rate int64) (httpapi.BackupSummary, error) {
	made, err := b.Node.Backup(ctx, w, rate)
	summary := httpapi.BackupSummary{SHA256: made.SHA256}
	for _, s := range made.Shards {
		summary.Shards = append(summary.Shards, httpapi.BackupShard{Shard: s.Shard, Index: s.Index, CutMs: s.CutMs})
	}
	return summary, err
}

func (b backend) Cluster(ctx context.Context) (view.Cluster, error) { return b.View(ctx).Cluster, nil }

func (b backend) NewKey(ctx context.Context, r httpapi.KeyRequest) (string, access.KeyRecord, error) {
	return b.Tenants.NewKey(ctx, tenants.KeySpec{
		Name: r.Name, Grants: r.Grants, Expires: r.Expires, Limits: quota.Limits(r.Quotas),
	})
}

func (b backend) DeleteNamespace(ctx context.Context, name string) (*view.Operation, error) {
	op, err := b.Tenants.DeleteNamespace(ctx, name)
	if err != nil || op == nil {
		return nil, err
	}
	return b.Progress(ctx, op), nil
}
