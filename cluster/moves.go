package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/router"
)

// moves is the reconciler's way to the replicas of all nodes.
type moves struct {
	self    string // node id
	control *control.Replica
	router  *router.Router
	health  *health.Nodes
	leader  func(shard uint32) string
	here    reports
	viewer  *viewer
	peer    func(node string) clusterpb.PeerClient // asks another node
	log     *slog.Logger
}

func (n *Node) moves() moves {
	return moves{
		self: n.ID(), control: n.control, router: n.router, health: n.health, leader: n.leaders.Leader,
		here: n.reports(), viewer: n.viewer, peer: n.peers.rpc, log: n.cfg.Logger,
	}
}

var _ control.Shards = moves{}

// Members makes a change of a shard's membership at its leader.
func (m moves) Members(
	ctx context.Context, shard uint32, ask *clusterpb.MembersCall,
) (*clusterpb.Membership, error) {
	return m.router.Members(ctx, shard, ask)
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
func (m moves) Leader(shard uint32) string { return m.leader(shard) }

// Fit reports whether a node's replica of a shard is fit to lead.
func (m moves) Fit(shard uint32, node string) bool { return m.health.MayLead(shard, node) }

// Up reports whether a node has answered within the last seconds.
func (m moves) Up(node string) bool { return m.health.Alive(node) }

// Faults asks all nodes for replicas that are outvoted or cannot be opened. The mender asks every two seconds, so the
// nodes' whole status would be too much.
func (m moves) Faults(ctx context.Context) []control.Fault {
	replies, _ := askAll(ctx, m.nodes(), m.log, m.askFaults) // a node without an answer is left out
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
	replies, _ := askAll(ctx, m.nodes(), m.log, func(ctx context.Context, node string) (*clusterpb.AppliedReply, error) {
		return m.askApplied(ctx, node, &clusterpb.AppliedRequest{Shard: allShards})
	})
	most := make(map[uint32]uint64)
	for _, reply := range replies {
		for _, r := range reply.Replicas {
			most[r.Shard] = max(most[r.Shard], r.Commands)
		}
	}
	return most
}

func (m moves) nodes() []string { return nodesOf(m.control.State()) }

func (m moves) askFaults(ctx context.Context, node string) (*clusterpb.FaultsReply, error) {
	if node == m.self {
		return m.here.faults(), nil
	}
	return m.peer(node).Faults(ctx, &clusterpb.FaultsRequest{})
}

func (m moves) askApplied(
	ctx context.Context, node string, of *clusterpb.AppliedRequest,
) (*clusterpb.AppliedReply, error) {
	if node == m.self {
		return m.here.applied(of), nil
	}
	return m.peer(node).Applied(ctx, of)
}

// Census asks all nodes for the sizes of their replicas and for their room. It asks for their whole status, which the
// splitter may, because it looks seldom and only if shards split by themselves.
func (m moves) Census(ctx context.Context) control.Census {
	census := control.Census{Bytes: make(map[uint32]uint64), Room: make(map[string]control.Room)}
	reports, _ := m.viewer.askAll(ctx, m.nodes())
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
