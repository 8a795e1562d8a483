package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/quota"
)

func (b backend) Keys() []access.KeyRecord { return b.Tenants().Keys() }

func (b backend) KeyQuotas(id string) httpapi.Quotas {
	return httpapi.Quotas(b.Tenants().KeyLimits(id))
}

func (b backend) NewKey(ctx context.Context, r httpapi.KeyRequest) (string, access.KeyRecord, error) {
	text, made, err := b.Tenants().NewKey(ctx, tenants.KeySpec{
		Name: r.Name, Grants: r.Grants, Expires: r.Expires, Limits: quota.Limits(r.Quotas),
	})
	return text, made, refusal(err)
}

func (b backend) RotateKey(
	ctx context.Context, id string, overlap time.Duration,
) (text string, key access.KeyRecord, existed bool, err error) {
	text, key, existed, err = b.Tenants().RotateKey(ctx, id, overlap)
	return text, key, existed, refusal(err)
}

func (b backend) RemoveKey(ctx context.Context, id string) (bool, error) {
	existed, err := b.Tenants().RemoveKey(ctx, id)
	return existed, refusal(err)
}

func (b backend) NamespaceActive(name string) bool { return b.Tenants().IsActive(name) }

// Namespaces shows the default namespace also while the cluster has no record of it.
func (b backend) Namespaces() []httpapi.NamespaceView {
	known := b.Tenants().Namespaces()
	if !slices.ContainsFunc(known, func(n tenants.Namespace) bool { return n.Name == task.DefaultNamespace }) {
		usual, _ := b.Tenants().Namespace(task.DefaultNamespace)
		known = append(known, usual)
	}
	views := make([]httpapi.NamespaceView, 0, len(known))
	for _, n := range known {
		views = append(views, namespaceView(n))
	}
	slices.SortFunc(views, func(a, b httpapi.NamespaceView) int { return strings.Compare(a.Name, b.Name) })
	return views
}

func (b backend) PutNamespace(
	ctx context.Context, name string, quotas httpapi.Quotas,
) (made httpapi.NamespaceView, created bool, err error) {
	put, created, err := b.Tenants().PutNamespace(ctx, name, quota.Limits(quotas))
	return namespaceView(put), created, refusal(err)
}

func (b backend) DeleteNamespace(ctx context.Context, name string) (*httpapi.OperationView, error) {
	op, err := b.Tenants().DeleteNamespace(ctx, name)
	if err != nil || op == nil {
		return nil, refusal(err)
	}
	return b.progress(ctx, op), nil
}

func namespaceView(n tenants.Namespace) httpapi.NamespaceView {
	view := httpapi.NamespaceView{Name: n.Name, Quotas: httpapi.Quotas(n.Limits), State: "active"}
	if n.Deleting {
		view.State = "deleting"
	}
	if !n.Created.IsZero() {
		at := httpapi.Instant(n.Created.UnixMilli())
		view.Created = &at
	}
	return view
}
