package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// rejoin takes a node of a cluster back into its groups once other nodes have sent their records of it and these agree
// with its data folder.
func (m *Member) rejoin(ctx context.Context) error {
	if err := m.cfg.Disks.OpenShards(ctx); err != nil {
		return err
	}
	m.newCheck()
	if !flawSkipsCheck() {
		if err := m.cfg.Admission.check.Load().Run(ctx); err != nil {
			return err
		}
	}
	if err := m.withRoom(ctx, m.takePart); err != nil {
		return err
	}
	m.rejoined = true
	return nil
}

func (m *Member) takePart(context.Context) error {
	if err := m.cfg.Identity.Confirm(); err != nil {
		return err
	}
	m.cfg.Admission.present.Store(true)
	return m.openControl()
}

// standAside ends the part of a node that must take none. The node goes on to answer other nodes' questions about its
// records of them, and refuses all other calls.
func (m *Member) standAside(refusal *witness.Refusal) {
	if m.cfg.Admission.refuse(refusal) {
		m.cfg.Logger.Error("this node must not take part", "reason", refusal.Reason, "advice", refusal.Advice)
	}
}

// Removed makes this node stand aside, because it was removed from the cluster.
func (m *Member) Removed() {
	id := m.cfg.Identity.NodeID()
	m.standAside(witness.Removed(fmt.Sprintf("%s (%s)", m.cfg.Entry.Name, id)))
}

// IsOver reports whether the cluster has removed the replica of a shard that joined at a revision, as other nodes said
// when this one started.
func (m *Member) IsOver(shard uint32, joined uint64) bool {
	check := m.cfg.Admission.check.Load()
	if check == nil {
		return false
	}
	last, over := check.Over()[shard]
	return over && joined <= last
}

// newCheck begins the check of this start, from the disks that are open.
func (m *Member) newCheck() { m.cfg.Admission.check.Store(witness.NewCheck(m.checkConfig())) }

func (m *Member) checkConfig() witness.CheckConfig {
	self := m.cfg.Identity.NodeID()
	cfg := witness.CheckConfig{
		Node: self, Run: m.cfg.Run, Copied: m.cfg.Identity.Copied(), Replicas: make(map[uint32]witness.Replica),
		Unread: make(map[uint32]bool), Left: m.cfg.Identity.Left(), Applied: m.cfg.Records.Kept(control.Number).Index,
		Nodes: witnesses{m.cfg}, Logger: m.cfg.Logger,
	}
	if own, known := m.cfg.Directory.book.entry(self); known {
		cfg.Addrs = []string{own.Registered}
	}
	for group, d := range m.cfg.Disks.Open() {
		cfg.Replicas[group] = witness.Replica{
			Term: d.Term(), Last: d.Last(), Holds: d.Holds, Joined: m.cfg.Identity.Joined(group), Voters: m.voters(group, d),
		}
	}
	for group := range m.cfg.Disks.Unread() {
		cfg.Unread[group] = true
	}
	return cfg
}

// witnesses are the nodes that may have seen this one.
type witnesses struct{ cfg Config }

// Known returns the nodes that may be in the cluster: the remembered nodes and the members of gossip.
func (w witnesses) Known() []string {
	ids := w.cfg.Directory.Nodes()
	for _, other := range w.cfg.Gossip.Members() {
		if other.ClusterId == w.cfg.Identity.ClusterID() {
			ids = append(ids, other.Id)
		}
	}
	return ids
}

func (w witnesses) Name(node string) string { return w.cfg.Directory.Name(node) }

// voters returns the voters of a group. A node whose replica does not know the voters of the control group yet uses the
// nodes of the promise by which the cluster was formed.
func (m *Member) voters(group uint32, d *raftdisk.Disk) []string {
	voters := d.Voters()
	if founders := m.cfg.Directory.Founders(); group == control.Number && len(voters) == 0 && len(founders) > 0 {
		return founders
	}
	return voters
}

func (w witnesses) Ask(
	ctx context.Context, node string, req *clusterpb.WitnessRequest,
) (*clusterpb.WitnessReply, error) {
	reply, err := w.cfg.Peers.Peer(node).Witness(ctx, req)
	if err == nil && reply.Node != node {
		err = fmt.Errorf("node %s answers for node %s", reply.Node, node)
	}
	return reply, err
}

func (w witnesses) AskAddr(
	ctx context.Context, addr string, req *clusterpb.WitnessRequest,
) (*clusterpb.WitnessReply, error) {
	return w.cfg.Peers.Witness(ctx, addr, req)
}

// Announce reports this start of the node to every node of the cluster, which records it, until ctx ends. The caller
// calls it after Enter.
func (m *Member) Announce(ctx context.Context) {
	var announcing sync.WaitGroup
	defer announcing.Wait()
	if m.rejoined {
		announcing.Go(m.tellGossip)
	}
	var announced []string
	for {
		state, changed := m.cfg.Control.Watch()
		for _, node := range state.Nodes {
			if node.Id != m.cfg.Identity.NodeID() && !slices.Contains(announced, node.Id) {
				announced = append(announced, node.Id)
				announcing.Go(func() { m.cfg.Admission.check.Load().Announce(ctx, node.Id) })
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (m *Member) tellGossip() {
	if err := m.cfg.Gossip.TakePart(); err != nil {
		m.cfg.Logger.Info("the others do not hear yet that this node takes part", "err", err)
	}
}

// Admission says whether the node takes part in its cluster. Its methods are safe for concurrent use.
type Admission struct {
	check   atomic.Pointer[witness.Check]   // nil: the check has not begun
	present atomic.Bool                     // the node takes part, or has no data yet that could be old
	refusal atomic.Pointer[witness.Refusal] // the reason why the node will never take part
	aside   chan struct{}                   // closed when refusal is set
}

// NewAdmission returns the admission of a starting node. A node without a cluster takes part at once.
func NewAdmission(clusterID string) *Admission {
	a := &Admission{aside: make(chan struct{})}
	a.present.Store(clusterID == "")
	return a
}

// TakesPart reports whether the node takes part, or has no data yet that could be old.
func (a *Admission) TakesPart() bool { return a.present.Load() }

// refuse ends the node's part, and reports whether it was the first to do so.
func (a *Admission) refuse(why *witness.Refusal) bool {
	if !a.refusal.CompareAndSwap(nil, why) {
		return false
	}
	a.present.Store(false)
	close(a.aside)
	return true
}

// Aside returns a channel that is closed when the node will never take part again.
func (a *Admission) Aside() <-chan struct{} { return a.aside }

// Refused reports whether the node will never take part.
func (a *Admission) Refused() bool { return a.refusal.Load() != nil }

// Barred returns the reason why the node does not take part in its cluster, as yet or at all. The reason is empty if
// the node takes part, or is in no cluster yet.
func (a *Admission) Barred() string {
	if refusal := a.refusal.Load(); refusal != nil {
		return "this node does not take part: " + refusal.Error()
	}
	if a.present.Load() {
		return ""
	}
	if check := a.check.Load(); check != nil {
		if waits := check.Status(); waits != "" {
			return waits
		}
	}
	return "this node is opening its data folder"
}
