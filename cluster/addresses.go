package cluster

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/addressbook"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/peer"
)

// lookup returns the addresses where a node may be, best first: where it was last reached, where it is registered,
// where gossip places it, and at last the addresses of --join. A wrong address costs a moment; see package peer.
func (n *Node) lookup(id string) []peer.Target {
	known, _ := n.book.Node(id)
	registered := control.Node(n.state(), id)
	name := cmp.Or(registered.GetName(), known.Name)
	targets := []peer.Target{
		{Addr: known.Reached, Name: name}, {Addr: registered.GetPeerAddr(), Name: name}, {Addr: known.Registered, Name: name},
	}
	if n.gossip != nil {
		for _, m := range n.gossip.Starts(id) {
			targets = append(targets, peer.Target{Addr: m.PeerAddr, Name: m.Name})
		}
	}
	for _, addr := range n.unclaimed(id) {
		targets = append(targets, peer.Target{Addr: addr, Name: name})
	}
	return usable(targets, n.endpoint.Addr())
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
func (n *Node) unclaimed(id string) []string {
	addrs := slices.Clone(n.cfg.Join)
	for _, other := range n.book.Nodes() {
		if other.ID != id {
			addrs = slices.DeleteFunc(addrs, func(a string) bool { return a == other.Reached })
		}
	}
	return addrs
}

// joinAddrs returns the addresses where other nodes may be: those of --join, and the registered ones.
func (n *Node) joinAddrs() []string {
	addrs := slices.Clone(n.cfg.Join)
	for _, node := range n.state().Nodes {
		if node.Id != n.ID() {
			addrs = append(addrs, node.PeerAddr)
		}
	}
	for _, node := range n.book.Nodes() {
		if node.ID != n.ID() {
			addrs = append(addrs, node.Reached, node.Registered)
		}
	}
	own := n.endpoint.Addr()
	return slices.DeleteFunc(addrs, func(a string) bool { return a == own || a == "" })
}

// reached records that a dial has found a node at an address.
func (n *Node) reached(id, addr string) {
	if len(id) == identity.IDBytes && id != n.ID() {
		n.book.SetReached(id, addr)
	}
}

// keepAddresses writes the registered addresses into the book.
func (n *Node) keepAddresses() {
	g := n.controlGroup()
	for {
		state, changed := g.Watch()
		if n.isCurrent(state) {
			var nodes []addressbook.Node
			for _, node := range state.Nodes {
				nodes = append(nodes, addressbook.Node{ID: node.Id, Name: node.Name, Registered: node.PeerAddr})
			}
			n.book.SetRegistered(nodes)
		}
		select {
		case <-changed:
		case <-n.ctx.Done():
			return
		}
	}
}
