package membership

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/peer"
)

// DirectoryConfig holds the directory's sources.
type DirectoryConfig struct {
	Identity *Identity // of this node
	Control  *control.Replica
	Join     []string // addresses of --join
	Node     Node
	Logger   *slog.Logger
}

// Node is this node, as far as it runs.
type Node interface {
	// PeerAddr returns the address at which other nodes dial this node.
	PeerAddr() string
	// Mesh returns gossip, or nil before it runs.
	Mesh() Mesh
}

// Mesh is the nodes as gossip shows them. *gossip.Gossip implements it.
type Mesh interface {
	// Members returns the nodes that gossip shows.
	Members() []*clusterpb.GossipMeta
	// Starts returns the processes that claim to be a node.
	Starts(node string) []*clusterpb.GossipMeta
}

// Directory knows the nodes of the cluster. Its methods are safe for concurrent use.
type Directory struct {
	cfg  DirectoryConfig
	book *book
}

// NewDirectory returns a directory, and reads the address book of the data folder.
func NewDirectory(cfg DirectoryConfig) *Directory {
	return &Directory{cfg: cfg, book: openBook(cfg.Identity.dir, cfg.Logger)}
}

func (d *Directory) self() string { return d.cfg.Identity.NodeID() }

// Nodes returns the ids of the cluster's nodes, this one included: the nodes of the map and, while the map may be an
// old one, the nodes that this node remembers from before its start.
func (d *Directory) Nodes() []string {
	if d.cfg.Identity.ClusterID() == "" {
		return nil
	}
	var ids []string
	state := d.cfg.Control.State()
	for _, node := range state.Nodes {
		ids = append(ids, node.Id)
	}
	if !d.cfg.Control.IsCurrent(state) {
		for _, node := range d.book.all() {
			ids = append(ids, node.ID)
		}
		ids = append(ids, d.Founders()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Founders returns the nodes of the promise by which the cluster was formed, or nil if this node gave no such promise.
func (d *Directory) Founders() []string {
	id := d.cfg.Identity
	if promise, promised := id.Promised(); promised && promise.ClusterID == id.ClusterID() {
		return promise.Nodes
	}
	return nil
}

// IsKnown reports whether a node is a member of this cluster. sure is set if this node knows all members.
func (d *Directory) IsKnown(id string) (member, sure bool) {
	sure = d.cfg.Identity.ClusterID() != "" && d.cfg.Control.IsCurrent(d.cfg.Control.State())
	return slices.Contains(d.Nodes(), id), sure
}

// IsMember reports whether a node with this name may take part. A registered node may. While a cluster is being formed,
// its nodes are not registered yet: such a node may if it claims in gossip, for which it needs the key, to be one of
// them. Any node may while this node does not know the registered nodes.
func (d *Directory) IsMember(name string) bool {
	state := d.cfg.Control.State()
	registered := func(node *clusterpb.Node) bool { return strings.EqualFold(node.Name, name) }
	if len(state.Nodes) == 0 || slices.ContainsFunc(state.Nodes, registered) {
		return true
	}
	return slices.ContainsFunc(d.cfg.Node.Mesh().Members(), func(m *clusterpb.GossipMeta) bool {
		return m.ClusterId == d.cfg.Identity.ClusterID() && strings.EqualFold(m.Name, name) &&
			isFounding(m.Id, state, d.Founders())
	})
}

// IsRemoved reports whether a node was removed from the cluster. A removed node never becomes a member again, so an old
// state of the control group is no reason for doubt.
func (d *Directory) IsRemoved(id string) bool { return control.IsRemoved(d.cfg.Control.State(), id) }

// isFounding reports whether a node forms the cluster and is not registered yet.
func isFounding(id string, state *clusterpb.ControlState, founders []string) bool {
	return slices.Contains(founders, id) && control.Node(state, id) == nil
}

// IsAlone reports whether this node is the only one of its cluster. It requires that all shards are placed, because a
// log that is read again after a restart registers nodes one by one and places shards on them after that.
func (d *Directory) IsAlone() bool {
	state := d.cfg.Control.State()
	unplaced := func(s *clusterpb.Shard) bool { return len(s.Replicas) == 0 }
	return len(state.Nodes) == 1 && !slices.ContainsFunc(state.Shards, unplaced)
}

// Name returns a node's name, or "" if it is not known.
func (d *Directory) Name(id string) string {
	known, _ := d.book.entry(id)
	return known.Name
}

// SaveBook writes the address book after each change until ctx ends, and then the last changes.
func (d *Directory) SaveBook(ctx context.Context) { d.book.run(ctx) }

// Run takes the registered addresses into the address book until ctx ends. The node must be in a cluster.
func (d *Directory) Run(ctx context.Context) {
	for {
		state, changed := d.cfg.Control.Watch()
		if d.cfg.Control.IsCurrent(state) {
			var nodes []bookEntry
			for _, node := range state.Nodes {
				nodes = append(nodes, bookEntry{ID: node.Id, Name: node.Name, Registered: node.PeerAddr})
			}
			d.book.setRegistered(nodes)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Lookup returns the addresses where a node may be, best first: where it was last reached, where it is registered,
// where gossip places it, and at last the addresses of --join. A wrong address costs a moment; see package peer.
func (d *Directory) Lookup(id string) []peer.Target {
	known, _ := d.book.entry(id)
	registered := control.Node(d.cfg.Control.State(), id)
	name := cmp.Or(registered.GetName(), known.Name)
	targets := []peer.Target{
		{Addr: known.Reached, Name: name}, {Addr: registered.GetPeerAddr(), Name: name}, {Addr: known.Registered, Name: name},
	}
	if mesh := d.cfg.Node.Mesh(); mesh != nil {
		for _, m := range mesh.Starts(id) {
			targets = append(targets, peer.Target{Addr: m.PeerAddr, Name: m.Name})
		}
	}
	for _, addr := range d.unclaimed(id) {
		targets = append(targets, peer.Target{Addr: addr, Name: name})
	}
	return usable(targets, d.cfg.Node.PeerAddr())
}

// usable leaves out empty addresses, this node's own address, and repeated targets.
func usable(targets []peer.Target, own string) []peer.Target {
	var kept []peer.Target
	for _, t := range targets {
		if t.Addr != "" && t.Addr != own && !slices.Contains(kept, t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// unclaimed returns the addresses of --join at which no dial has found a node other than id. A node of the cluster may
// have moved to one of them.
func (d *Directory) unclaimed(id string) []string {
	addrs := slices.Clone(d.cfg.Join)
	for _, other := range d.book.all() {
		if other.ID != id {
			addrs = slices.DeleteFunc(addrs, func(a string) bool { return a == other.Reached })
		}
	}
	return addrs
}

// JoinAddrs returns the addresses where other nodes may be: those of --join, and the registered ones.
func (d *Directory) JoinAddrs() []string {
	addrs := slices.Clone(d.cfg.Join)
	for _, node := range d.cfg.Control.State().Nodes {
		if node.Id != d.self() {
			addrs = append(addrs, node.PeerAddr)
		}
	}
	for _, node := range d.book.all() {
		if node.ID != d.self() {
			addrs = append(addrs, node.Reached, node.Registered)
		}
	}
	own := d.cfg.Node.PeerAddr()
	return slices.DeleteFunc(addrs, func(a string) bool { return a == own || a == "" })
}

// Reached records that a dial has found a node at an address.
func (d *Directory) Reached(id, addr string) {
	if len(id) == IDBytes && id != d.self() {
		d.book.setReached(id, addr)
	}
}
