package cluster

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
)

// moves is the reconciler's way to the replicas of all nodes.
type moves struct{ n *Node }

// Members makes a change of a shard's membership at its leader.
func (m moves) Members(
	ctx context.Context, shard uint32, ask *clusterpb.MembersCall,
) (*clusterpb.Membership, error) {
	return m.n.router.Members(ctx, shard, ask)
}

// Applied asks a node for the last entry that its replica of a shard has applied.
func (m moves) Applied(ctx context.Context, node string, shard uint32, joined uint64) (uint64, error) {
	reply, err := m.askApplied(ctx, node, &clusterpb.AppliedRequest{Shard: shard, Joined: joined})
	switch {
	case err != nil:
		return 0, err
	case len(reply.Replicas) == 0:
		return 0, fmt.Errorf("node %s has no replica of shard %d yet", node, shard)
	}
	return reply.Replicas[0].Index, nil
}

// Leader returns the believed leader of a shard, or "" if none.
func (m moves) Leader(shard uint32) string { return m.n.leaders.Leader(shard) }

// Fit reports whether a node's replica of a shard is fit to lead.
func (m moves) Fit(shard uint32, node string) bool { return m.n.health.MayLead(shard, node) }

// Up reports whether a node has answered within the last seconds.
func (m moves) Up(node string) bool { return m.n.health.Alive(node) }

// Faults asks all nodes for replicas that are outvoted or cannot be opened. The mender asks every two seconds, so the
// nodes' whole status would be too much.
func (m moves) Faults(ctx context.Context) []control.Fault {
	replies, _ := askAll(ctx, m.nodes(), m.n.cfg.Logger, m.askFaults) // a node without an answer is left out
	var faults []control.Fault
	for node, reply := range replies {
		for _, f := range reply.Faults {
			faults = append(faults, control.Fault{Shard: f.Shard, Node: node, Reason: f.Reason})
		}
	}
	return faults
}

// Commands asks all nodes for the number of commands that each shard has applied in its life.
func (m moves) Commands(ctx context.Context) map[uint32]uint64 {
	ask := func(ctx context.Context, node string) (*clusterpb.AppliedReply, error) {
		return m.askApplied(ctx, node, &clusterpb.AppliedRequest{Shard: allShards})
	}
	replies, _ := askAll(ctx, m.nodes(), m.n.cfg.Logger, ask)
	most := make(map[uint32]uint64)
	for _, reply := range replies {
		for _, r := range reply.Replicas {
			most[r.Shard] = max(most[r.Shard], r.Commands)
		}
	}
	return most
}

func (m moves) nodes() []string { return nodesOf(m.n.control.State()) }

func (m moves) askFaults(ctx context.Context, node string) (*clusterpb.FaultsReply, error) {
	return calls.Ask[*clusterpb.FaultsReply](ctx, allNodes(m).At(node), 0, &clusterpb.FaultsRequest{})
}

func (m moves) askApplied(
	ctx context.Context, node string, of *clusterpb.AppliedRequest,
) (*clusterpb.AppliedReply, error) {
	return calls.Ask[*clusterpb.AppliedReply](ctx, allNodes(m).At(node), 0, of)
}

// Census asks all nodes for the sizes of their replicas and for their room. It asks for their whole status, which the
// splitter may, because it looks seldom and only if shards split by themselves.
func (m moves) Census(ctx context.Context) control.Census {
	census := control.Census{Bytes: make(map[uint32]uint64), Room: make(map[string]control.Room)}
	reports, _ := m.n.viewer.askAll(ctx, m.nodes())
	for node, report := range reports {
		census.Room[node] = roomOf(report)
		for _, r := range report.Replicas {
			census.Bytes[r.Shard] = max(census.Bytes[r.Shard], r.Bytes)
		}
	}
	return census
}

// roomOf returns the number of bytes that a node can take before it takes no more tasks.
func roomOf(r *clusterpb.StatusReply) control.Room {
	room, v := control.Room{Memory: control.NoBound, Disk: control.NoBound}, r.GetVitals()
	switch {
	case r.GetHealth().GetMemoryFull() != "":
		room.Memory = 0
	case v.GetMemoryLimit() > 0:
		room.Memory = uint64(max(headroom.TasksLimit(v.MemoryLimit)-v.GetMemoryUsed(), 0))
	}
	switch {
	case r.GetHealth().GetDiskLow():
		room.Disk = 0
	case v.GetDiskTotal() > 0:
		room.Disk = v.DiskFree - min(v.GetDiskReserve(), v.DiskFree)
	}
	return room
}

// allShards stands for all shards in the Shard field of an AppliedRequest.
const allShards = 0

// faults reports the replicas here that are outvoted or cannot be opened.
func (m moves) faults(context.Context, *clusterpb.FaultsRequest) (*clusterpb.FaultsReply, error) {
	reply := &clusterpb.FaultsReply{}
	add := func(shard uint32, reason string) {
		reply.Faults = append(reply.Faults, &clusterpb.ReplicaFault{Shard: shard, Reason: reason})
	}
	for _, s := range m.n.replicas.All() {
		if m.n.health.Outvoted(s.ID(), m.n.ID()) {
			add(s.ID(), "its state differs from the others'")
		}
	}
	for shard, reason := range m.n.replicas.Broken() {
		add(shard, reason)
	}
	return reply, nil
}

// applied reports how far all replicas here are, or the replica of a shard that joined at a revision. That one is left
// out until it has caught up: with a vote before that, it would keep this node from being ready.
func (m moves) applied(_ context.Context, of *clusterpb.AppliedRequest) (*clusterpb.AppliedReply, error) {
	reply := &clusterpb.AppliedReply{}
	for _, s := range m.n.replicas.All() {
		at := s.Newest()
		applied := &clusterpb.ReplicaApplied{Shard: s.ID(), Index: at.Index, Commands: at.Commands}
		if of.Shard != allShards {
			if of.Shard != s.ID() || !m.n.replicas.HasJoined(s.ID(), of.Joined) || !s.HasCaughtUp() {
				continue
			}
			applied.Index = s.Applied() // includes entries without a command, as the leader's commit index does
		}
		reply.Replicas = append(reply.Replicas, applied)
	}
	return reply, nil
}
