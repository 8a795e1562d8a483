package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/chronicle"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
)

// Events returns the reader of the events of the whole cluster.
func (n *Node) Events() *chronicle.Reader { return n.events }

// eventSources are the replicas of the cluster, as the sources of events.
type eventSources struct{ n *Node }

func (e eventSources) Shards() (ids []uint32) {
	for _, s := range e.n.control.State().Shards {
		ids = append(ids, s.Id)
	}
	return ids
}

func (e eventSources) ShardOf(namespace, id string) uint32 {
	slot := task.Slot(namespace, id)
	for _, s := range e.n.control.State().Slots {
		if s.First <= slot && slot < s.End {
			return s.Shard
		}
	}
	return 0
}

// Nodes returns the nodes that seem up and have a replica of a shard: its leader first, then this node.
func (e eventSources) Nodes(id uint32) []string {
	n := e.n
	leader := n.leaders.Leader(id)
	nodes := slices.Clone(control.Shard(n.control.State(), id).GetReplicas())
	nodes = slices.DeleteFunc(nodes, func(node string) bool { return !n.health.Alive(node) })
	rank := func(node string) int {
		switch node {
		case leader:
			return 0
		case n.ID():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(nodes, func(a, b string) int { return rank(a) - rank(b) })
	return nodes
}

func (e eventSources) Read(
	ctx context.Context, node string, r *clusterpb.ReadEventsRequest,
) (*clusterpb.ReadEventsReply, error) {
	if node == e.n.ID() {
		return e.n.chronicle.Read(ctx, r)
	}
	return e.n.peers.Peer(node).ReadEvents(ctx, r)
}

// storyPatience is the time for nodes to find the events of a task.
const storyPatience = 5 * time.Second

func (e eventSources) Task(ctx context.Context, r *clusterpb.TaskEventsRequest) (
	replies map[string]*clusterpb.TaskEventsReply, failed map[string]error,
) {
	n := e.n
	ask := func(ctx context.Context, node string) (*clusterpb.TaskEventsReply, error) {
		if node != n.ID() && !n.health.Alive(node) {
			return nil, errAway
		}
		return calls.Ask[*clusterpb.TaskEventsReply](ctx, allNodes{n}.At(node), 0, r)
	}
	return askWithin(ctx, storyPatience, n.known(), n.cfg.Logger, ask)
}

// retryErase is the pause after the events of a namespace could not be removed.
const retryErase = time.Minute

// keepHistory removes the events of namespaces that do not exist any more, until ctx ends.
func (n *Node) keepHistory(ctx context.Context) {
	for {
		state, changed := n.control.Watch()
		var retry <-chan time.Time
		if n.control.IsCurrent(state) {
			if err := n.chronicle.Retain(func(name string) bool { return exists(state, name) }); err != nil {
				n.cfg.Logger.Warn("events of a deleted namespace are left", "err", err)
				retry = time.After(retryErase)
			}
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

func exists(state *clusterpb.ControlState, namespace string) bool {
	return namespace == task.DefaultNamespace ||
		slices.ContainsFunc(state.Namespaces, func(s *clusterpb.Namespace) bool { return s.Name == namespace })
}
