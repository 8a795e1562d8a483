package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Audit asks the nodes of the cluster for records of their audit logs, each with its own request, and returns the
// answers and the errors by node id. A node that is known to be away is not waited for.
func (n *Node) Audit(
	ctx context.Context, request func(node string) *clusterpb.AuditRequest,
) (replies map[string]*clusterpb.AuditReply, failed map[string]error) {
	ask := func(ctx context.Context, node string) (*clusterpb.AuditReply, error) {
		if node != n.ID() && !n.health.Alive(node) {
			return nil, errAway
		}
		return calls.Ask[*clusterpb.AuditReply](ctx, allNodes{n}.At(node), 0, request(node))
	}
	return askWithin(ctx, auditPatience, n.known(), n.cfg.Logger, ask)
}

// auditPatience is the time for nodes to read their audit logs, which may take a second for records long past.
const auditPatience = 5 * time.Second

var errAway = errors.New("the node does not answer")

func (n *Node) audit(ctx context.Context, r *clusterpb.AuditRequest) (*clusterpb.AuditReply, error) {
	if n.cfg.API == nil {
		return nil, errors.New("the node keeps no audit log")
	}
	return n.cfg.API.Audit(ctx, r)
}
