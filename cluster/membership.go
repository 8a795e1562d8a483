package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/internal/formation"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/internal/witness"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
)

const controlNumber = 0 // number of the control group among the Raft groups; shards have their own ids

// run gets the node into a cluster and then follows the control group.
func (n *Node) run() {
	enter := n.rejoin
	if n.ClusterID() == "" {
		enter = func() error { return n.withRoom(n.enterCluster) }
	}
	if err := enter(); err != nil {
		var refusal *witness.Refusal
		switch {
		case errors.As(err, &refusal):
			n.standAside(refusal)
		case n.ctx.Err() == nil:
			n.cfg.Fatal(fmt.Errorf("cluster: %w", err))
		}
		return
	}
	n.workers.Go(n.announce)
	n.workers.Go(n.keepRegistered)
	n.workers.Go(n.keepAddresses)
	n.workers.Go(n.keepTime)
	n.replicas.Follow(n.ctx)
}

// withRoom calls enter again while it fails with a full disk. Ready returns that error meanwhile.
func (n *Node) withRoom(enter func() error) error {
	for told := false; ; told = true {
		err := enter()
		n.mu.Lock()
		n.noRoom = nil
		if disk.IsFull(err) {
			n.noRoom = fmt.Errorf("this node cannot enter a cluster yet, and tries again: %w", err)
		}
		full := n.noRoom
		n.mu.Unlock()
		if full == nil {
			return err
		}
		if !told {
			n.cfg.Logger.Error("the disk is full", "err", full)
		}
		if !n.sleep(replicas.OpenAgain) {
			return err
		}
	}
}

func (n *Node) enterCluster() error {
	err := formation.Run(n.ctx, formation.Config{
		Record: n.identity, Expect: n.cfg.BootstrapExpect, Members: n.gossip.Watch, Ask: n.askPromise,
		Register: n.registerThrough, Logger: n.cfg.Logger,
	})
	if err != nil {
		return err
	}
	n.check.Store(witness.NewCheck(n.checkConfig()))
	if err := n.openControl(); err != nil {
		return err
	}
	if err := n.gossip.EnterCluster(n.identity.ClusterID()); err != nil {
		n.cfg.Logger.Warn("the others do not hear yet that this node is in the cluster", "err", err)
	}
	return nil
}

// openControl opens this node's replica of the control group. The node that proposed a new cluster bootstraps the
// group; all other nodes receive the group's configuration from it.
func (n *Node) openControl() error {
	if n.controlGroup() == nil {
		if err := n.startControl(); err != nil {
			return err
		}
	}
	return n.identity.RecordOpened(controlNumber)
}

func (n *Node) startControl() error {
	cfg := n.controlConfig()
	disk, err := n.diskOf(controlNumber)
	if err != nil {
		return err
	}
	transport, err := n.endpoint.Raft(controlNumber, n.identity.ClusterID(), raftlog.New(cfg.Logger))
	if err != nil {
		return err
	}
	cfg.Storage, cfg.Transport = disk, transport
	g, err := control.Open(cfg)
	if err != nil {
		return errors.Join(err, transport.Close(), n.closeDisk(controlNumber))
	}
	n.seen.Follow(controlNumber, func() witness.Position { return position(g.Position()) })
	n.mu.Lock()
	n.control = g
	n.mu.Unlock()
	return nil
}

// controlConfig returns the control group's settings except its storage and transport.
func (n *Node) controlConfig() control.Config {
	return control.Config{
		NodeID: n.ID(), Applied: n.seen.Kept(controlNumber).Index,
		Bootstrap: n.bootstrapList(), Heartbeat: 2 * n.cfg.Timing.Heartbeat,
		Plan:   control.Plan{ClusterID: n.ClusterID(), Shards: n.cfg.Shards, Replication: n.cfg.Replication},
		Logger: n.cfg.Logger.With("group", "control"), Fatal: n.cfg.Fatal,
	}
}

func (n *Node) bootstrapList() []string {
	p, promised := n.identity.Promised()
	if promised && p.ClusterID == n.identity.ClusterID() && p.Nodes[0] == n.ID() && !n.identity.Opened(controlNumber) {
		return p.Nodes
	}
	return nil
}

func (n *Node) askPromise(ctx context.Context, node string, p identity.Promise) (*clusterpb.PromiseReply, error) {
	return n.peers.get(node).rpc.Promise(ctx, &clusterpb.PromiseRequest{ClusterId: p.ClusterID, Nodes: p.Nodes})
}

// self returns the correct entry of this node in the control group.
func (n *Node) self() *clusterpb.Node {
	return &clusterpb.Node{
		Id: n.ID(), Name: n.cfg.Name, PeerAddr: n.endpoint.Addr(), HttpAddr: n.cfg.HTTPAddr,
		CommandVersion: fsm.CommandVersion, Boot: n.identity.Boot(),
	}
}

func (n *Node) registerThrough(ctx context.Context, node string) (string, error) {
	reply, err := n.peers.get(node).rpc.Register(ctx, &clusterpb.RegisterRequest{Node: n.self()})
	return reply.GetClusterId(), err
}

// keepRegistered keeps this node's entry in the control group up to date.
func (n *Node) keepRegistered() {
	g := n.controlGroup()
	for {
		state, changed := g.Watch()
		if known := control.Node(state, n.ID()); known != nil && proto.Equal(known, n.self()) {
			select {
			case <-changed:
				continue
			case <-n.ctx.Done():
				return
			}
		}
		if err := n.registerSelf(); err != nil {
			n.cfg.Logger.Debug("not registered yet", "err", err)
		}
		if !n.sleep(200 * time.Millisecond) { // also gives the entry time to arrive here
			return
		}
	}
}

func (n *Node) registerSelf() error {
	ctx, cancel := context.WithTimeout(n.ctx, 5*time.Second)
	defer cancel()
	return n.register(ctx, &clusterpb.RegisterRequest{Node: n.self()})
}

// register asks the control group's leader to register the entry. It tries the nodes that are named as the leader, and
// does not wait for an election. A relayed entry goes no further than this node.
func (n *Node) register(ctx context.Context, req *clusterpb.RegisterRequest) error {
	if n.controlGroup() == nil {
		return fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	for search := n.searchControl(); ; {
		node := search.Next()
		if req.Relayed {
			node = n.ID()
		}
		err := n.registerAt(ctx, node, req.Node)
		if err == nil || req.Relayed || search.Refused(leaders.LeaderIn(err)) > 0 {
			return err
		}
	}
}

// registerAt asks a node to register the entry. The node does so if it leads the control group.
func (n *Node) registerAt(ctx context.Context, node string, entry *clusterpb.Node) error {
	if node == n.ID() {
		return n.controlGroup().Register(ctx, entry)
	}
	_, err := n.peers.get(node).rpc.Register(ctx, &clusterpb.RegisterRequest{Node: entry, Relayed: true})
	return err
}

// lastControlPause is the longest pause between two tries to reach the control group's leader. The group has a leader
// nearly always, and an election of it takes a second.
const lastControlPause = 200 * time.Millisecond

// searchControl begins a search for the control group's leader. Every node has a replica of the group, so the search
// asks this node's replica if the leader is not known.
func (n *Node) searchControl() leaders.Search {
	here := &clusterpb.Shard{Preferred: n.ID(), Replicas: []string{n.ID()}}
	return leaders.NewSearch(leaders.SearchConfig{
		Shard: controlNumber, Source: leaders.Raft(n.controlLeader),
		Placement: func(uint32) *clusterpb.Shard { return here },
		Alive:     func(string) bool { return true }, LastPause: lastControlPause,
	})
}

// controlLeader returns the control group's leader as far as this node's replica knows.
func (n *Node) controlLeader() string {
	if g := n.controlGroup(); g != nil {
		leader, _ := g.Leader()
		return leader
	}
	return ""
}

// isMember reports whether a node with this name may take part. A registered node may. A node may, too, if it claims
// in gossip, for which it needs the key, to be in this cluster: while a cluster is being formed, its nodes are not
// registered yet. Any node may while this node does not know the registered nodes.
func (n *Node) isMember(name string) bool {
	state := n.state()
	registered := func(node *clusterpb.Node) bool { return strings.EqualFold(node.Name, name) }
	if len(state.Nodes) == 0 || slices.ContainsFunc(state.Nodes, registered) {
		return true
	}
	return slices.ContainsFunc(n.gossip.Members(), func(m *clusterpb.GossipMeta) bool {
		return m.ClusterId == n.ClusterID() && strings.EqualFold(m.Name, name)
	})
}

// isCurrent reports whether a state of the control group is the present one. A log that is read again after a restart
// shows old states first. The present state is reached once it contains this start of this node.
func (n *Node) isCurrent(state *clusterpb.ControlState) bool {
	return control.Node(state, n.ID()).GetBoot() == n.identity.Boot()
}

// mapNodes returns the ids of the cluster's nodes, this one included: the nodes of the map and, while the map may be an
// old one, the nodes that this node remembers from before its start.
func (n *Node) mapNodes() []string {
	if n.ClusterID() == "" {
		return nil
	}
	var ids []string
	state := n.state()
	for _, node := range state.Nodes {
		ids = append(ids, node.Id)
	}
	if !n.isCurrent(state) {
		for _, node := range n.book.Nodes() {
			ids = append(ids, node.ID)
		}
		if promise, promised := n.identity.Promised(); promised && promise.ClusterID == n.ClusterID() {
			ids = append(ids, promise.Nodes...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
