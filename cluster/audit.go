package cluster

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Audit asks the nodes of the cluster for records of their audit logs, each with its own request, and returns the
// answers and the errors by node id. Nodes have half a second for their answers.
func (n *Node) Audit(
	ctx context.Context, request func(node string) *clusterpb.AuditRequest,
) (replies map[string]*clusterpb.AuditReply, failed map[string]error) {
	return askAll(ctx, n.known(), n.cfg.Logger, func(ctx context.Context, node string) (*clusterpb.AuditReply, error) {
		if node == n.ID() {
			return n.audit(ctx, request(node))
		}
		return n.peers.rpc(node).Audit(ctx, request(node))
	})
}

func (n *Node) audit(ctx context.Context, r *clusterpb.AuditRequest) (*clusterpb.AuditReply, error) {
	if n.cfg.Audit == nil {
		return nil, status.Error(codes.Unavailable, "the node keeps no audit log")
	}
	return n.cfg.Audit(ctx, r)
}

// Audit answers another node.
func (s service) Audit(ctx context.Context, r *clusterpb.AuditRequest) (*clusterpb.AuditReply, error) {
	return s.n.audit(ctx, r)
}
