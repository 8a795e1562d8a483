package directory

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/cluster/peer"
)

// Lookup returns the addresses where a node may be, best first: where it was last reached, where it is registered,
// where gossip places it, and at last the addresses of --join. A wrong address costs a moment; see package peer.
func (d *Directory) Lookup(id string) []peer.Target {
	known, _ := d.cfg.Book.Node(id)
	registered := control.Node(d.cfg.Control.State(), id)
	name := cmp.Or(registered.GetName(), known.Name)
	targets := []peer.Target{
		{Addr: known.Reached, Name: name}, {Addr: registered.GetPeerAddr(), Name: name}, {Addr: known.Registered, Name: name},
	}
	if mesh := d.cfg.Mesh(); mesh != nil {
		for _, m := range mesh.Starts(id) {
			targets = append(targets, peer.Target{Addr: m.PeerAddr, Name: m.Name})
		}
	}
	for _, addr := range d.unclaimed(id) {
		targets = append(targets, peer.Target{Addr: addr, Name: name})
	}
	return usable(targets, d.cfg.OwnAddr())
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
	for _, other := range d.cfg.Book.Nodes() {
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
	for _, node := range d.cfg.Book.Nodes() {
		if node.ID != d.self() {
			addrs = append(addrs, node.Reached, node.Registered)
		}
	}
	own := d.cfg.OwnAddr()
	return slices.DeleteFunc(addrs, func(a string) bool { return a == own || a == "" })
}

// Reached records that a dial has found a node at an address.
func (d *Directory) Reached(id, addr string) {
	if len(id) == identity.IDBytes && id != d.self() {
		d.cfg.Book.SetReached(id, addr)
	}
}
