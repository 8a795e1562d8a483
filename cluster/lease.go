package cluster

import (
	"cmp"
	"context"
	"fmt"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// Lease leases due tasks of a queue that name no target to a consumer, from all shards. It returns as soon as there is
// a task, with all others that have come by then, up to req.Max and some megabytes. If ctx ends first, it returns
// none. The returned tasks are leased even if ctx has ended meanwhile: a caller that does not want them releases them.
// Errors are *task.FieldError, task.ErrOverloaded and task.ErrNotProposed.
func (n *Node) Lease(ctx context.Context, req task.LeaseRequest) ([]*fsmpb.Task, error) {
	req.Namespace = cmp.Or(req.Namespace, task.DefaultNamespace)
	req.Queue = cmp.Or(req.Queue, task.DefaultQueue)
	if err := checkLease(req); err != nil {
		return nil, err
	}
	return n.consumers.Lease(ctx, req)
}

func checkLease(req task.LeaseRequest) error {
	if err := task.CheckName("queue", req.Queue); err != nil {
		return err
	}
	if req.Max < 1 || req.Max > task.MaxLeaseTasks {
		return &task.FieldError{Field: "max", Detail: "is out of bounds", Limit: fmt.Sprintf("1 to %d", task.MaxLeaseTasks)}
	}
	if req.Lease < task.MinLease || req.Lease > task.MaxLease {
		return &task.FieldError{
			Field: "lease", Detail: "is out of bounds", Limit: fmt.Sprintf("%v to %v", task.MinLease, task.MaxLease),
		}
	}
	return nil
}

func (a allNodes) Pull(ctx context.Context, node string) (consume.Stream, error) {
	return peer.OpenStream[clusterpb.PullRequest, clusterpb.PullReply](
		ctx, a.n.endpoint, peer.Pulls, node, a.n.ClusterID())
}

func (a allNodes) Arrived(
	ctx context.Context, node string, shard uint32, fences []uint64,
) (desk.Arrivals, error) {
	request := &clusterpb.ArrivedRequest{Shard: shard, Fences: fences}
	reply, err := calls.Ask[*clusterpb.ArrivedReply](ctx, a.At(node), 0, request)
	return desk.Arrivals{Holder: reply.GetHolder(), Fences: reply.GetFences()}, err
}

func (n *Node) arrived(_ context.Context, r *clusterpb.ArrivedRequest) (*clusterpb.ArrivedReply, error) {
	here := n.consumers.ArrivedHere(r.Shard, r.Fences)
	return &clusterpb.ArrivedReply{Holder: here.Holder, Fences: here.Fences}, nil
}
