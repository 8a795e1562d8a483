package directory

import (
	"context"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/addressbook"
	"github.com/belfryhq/belfry/cluster/internal/identity"
)

// Config holds the directory's sources.
type Config struct {
	Identity *identity.Identity // of this node
	Control  *control.Replica
	Book     *addressbook.Book
	Join     []string      // addresses of --join
	OwnAddr  func() string // returns the address at which other nodes dial this node
	Mesh     func() Mesh   // returns gossip, or nil before it runs
}

// Mesh is the nodes as gossip shows them. *gossip.Gossip implements it.
type Mesh interface {
	// Members returns the nodes that gossip shows.
	Members() []*clusterpb.GossipMeta
	// Starts returns the processes that claim to be a node.
	Starts(node string) []*clusterpb.GossipMeta
}

// Directory knows the nodes of the cluster. Its methods are safe for concurrent use.
type Directory struct{ cfg Config }

// New returns a directory.
func New(cfg Config) *Directory { return &Directory{cfg} }

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
		for _, node := range d.cfg.Book.Nodes() {
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
	return slices.ContainsFunc(d.cfg.Mesh().Members(), func(m *clusterpb.GossipMeta) bool {
		return m.ClusterId == d.cfg.Identity.ClusterID() && strings.EqualFold(m.Name, name) &&
			isFounding(m.Id, state, d.Founders())
	})
}

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
	known, _ := d.cfg.Book.Node(id)
	return known.Name
}

// Run writes the registered addresses into the address book until ctx ends. The node must be in a cluster.
func (d *Directory) Run(ctx context.Context) {
	for {
		state, changed := d.cfg.Control.Watch()
		if d.cfg.Control.IsCurrent(state) {
			var nodes []addressbook.Node
			for _, node := range state.Nodes {
				nodes = append(nodes, addressbook.Node{ID: node.Id, Name: node.Name, Registered: node.PeerAddr})
			}
			d.cfg.Book.SetRegistered(nodes)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
