package cluster

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
	"github.com/belfryhq/belfry/shard"
)

// newReplicas returns the set of replicas on this node. None is open yet.
func (n *Node) newReplicas() *replicas.Set {
	return replicas.New(replicas.Config{
		Self: n.ID(), Control: n.control, Files: files{n, semaphore.NewWeighted(1)}, Leaders: n.leaders, Moves: n.router,
		Copies: n.copies, Admission: n.tenants, Quotas: n.quotas, Changed: n.health.Judge, Logger: n.cfg.Logger,
	})
}

// files are the files of the replicas on a node.
type files struct {
	*Node
	snapshots *semaphore.Weighted // taken one at a time
}

// Open opens the replica of a shard that the state places on this node.
func (n files) Open(state *clusterpb.ControlState, placed *clusterpb.Shard) (*shard.Shard, error) {
	id := placed.Id
	if err := n.identity.RecordJoined(id, placed.Joined[n.ID()]); err != nil {
		return nil, err
	}
	disk, err := n.disks.Get(id)
	if err != nil {
		return nil, err
	}
	transport, err := n.endpoint.Raft(id, state.ClusterId, raftlog.New(n.cfg.Logger.With("shard", id)))
	if err != nil {
		return nil, err
	}
	cfg := shard.Config{
		ID: id, NodeID: n.ID(), Node: host{n.health, n.lateness, n.tenants, n.disk, n.Node}, Router: n.router,
		Storage: disk, Existing: n.identity.Opened(id), Applied: n.records.Kept(id).Index,
		Replicas: replicas.Founders(placed), Preferred: placed.Preferred, Transport: transport, Deliver: n.cfg.Deliver,
		Clock: n.cfg.Clock, Clocks: n.clocks, Consumers: n.consumers, Policies: n.policies, Limits: n.router,
		Fatal: n.cfg.Fatal, Timing: n.cfg.Timing, Policy: policyOf(n.cfg, n.ID(), state), Tracer: n.cfg.Tracer,
		SnapshotGate: n.snapshots, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
		SnapshotLog: n.cfg.Snapshots.Log, SnapshotPart: n.cfg.Snapshots.Part, SnapshotTail: n.cfg.Snapshots.Tail,
		MaxPending: n.cfg.MaxPending, Crowd: n.crowd, Copies: n.copies.Of(id),
	}
	if n.cfg.DevClock != nil {
		cfg.DevClock = n.cfg.DevClock
	}
	switch kept, err := n.chronicle.Shard(id); {
	case err != nil:
		n.cfg.Logger.Warn("a replica has no history", "shard", id, "err", err)
	case kept != nil:
		cfg.History = kept
	}
	opened, err := shard.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, transport.Close(), n.disks.Close(id))
	}
	return opened, nil
}

// Opened makes the node's own record of a replica follow it, and records its group in the data folder.
func (n files) Opened(s *shard.Shard, placed *clusterpb.Shard) error {
	n.records.Follow(s.ID(), s.Position)
	return n.identity.RecordOpened(s.ID(), placed.Joined[n.ID()])
}

// Held returns the shards that have files in the data folder.
func (n files) Held() []uint32 {
	return slices.DeleteFunc(n.identity.Held(), func(group uint32) bool { return group == control.Number })
}

// Joined returns the revision at which the replica of a shard joined whose files are here.
func (n files) Joined(shard uint32) uint64 { return n.identity.Joined(shard) }

// IsOver reports whether the data folder or another node knows that a replica was removed.
func (n files) IsOver(shard uint32, joined uint64) bool {
	return n.identity.IsOver(shard, joined) || n.member.IsOver(shard, joined)
}

// Leave deletes the files of a replica that has moved away. The leader that the replica knew may be out of date.
func (n files) Leave(id uint32) error {
	n.leaders.Left(id)
	if err := errors.Join(n.disks.Drop(id), n.chronicle.Drop(id)); err != nil {
		return err
	}
	return n.identity.Remove(id, n.records.Drop)
}

// policyOf returns the policy of the replicas on a node. The bytes for tombstones on this node are shared among the
// replicas. The number of replicas here may differ from the configured number of shards, which is that of a new
// cluster.
func policyOf(cfg Config, node string, state *clusterpb.ControlState) shard.Policy {
	here := 0
	for _, s := range state.Shards {
		if slices.Contains(s.Replicas, node) {
			here++
		}
	}
	policy := cfg.Policy
	policy.TombstoneBytes = cfg.TombstoneBytes / int64(max(here, 1))
	return policy
}

// host is the node as its replicas see it.
type host struct {
	*health.Nodes
	*queuemetrics.Lateness
	*tenants.Tenants
	*headroom.Disk
	node *Node
}

var _ shard.Node = host{}

// MayWrite returns an error while a node of the cluster cannot read entries of a command version.
func (h host) MayWrite(version uint32) error {
	return control.MayWrite(h.node.control.State(), version)
}

// OnLeader records the leader that a replica here sees, and announces it by gossip if it is this node.
func (h host) OnLeader(c shard.Change) {
	n := h.node
	if n.leaders.Note(c.Shard, c.Term, c.Leader) && c.Leader == n.ID() {
		n.gossip.Announce(&clusterpb.LeaderHint{Shard: c.Shard, Term: c.Term, Leader: c.Leader})
	}
}

// keepPlaced tells the node's record of other nodes which replicas the cluster has, until ctx ends.
func (n *Node) keepPlaced(ctx context.Context) {
	for {
		state, changed := n.control.Watch()
		if n.control.IsCurrent(state) {
			n.records.Place(placedIn(state))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// placedIn returns the nodes that hold a replica of each shard, with the revisions at which they joined.
func placedIn(state *clusterpb.ControlState) map[uint32]map[string]uint64 {
	placed := make(map[uint32]map[string]uint64)
	for _, s := range state.Shards {
		if len(s.Replicas) == 0 {
			continue
		}
		placed[s.Id] = make(map[string]uint64)
		for _, node := range s.Replicas {
			placed[s.Id][node] = s.Joined[node]
		}
	}
	return placed
}
