package stand

import (
	"path/filepath"

	"github.com/belfryhq/belfry/deploy/local"
)

// Gossip switches a node's gossip off and on, in both directions.
type Gossip struct{ *shared }

// Mute drops all of the node's gossip from now on. Mute(false) ends that.
func (g *Gossip) Mute(on bool) {
	if on {
		g.number.Store(1)
		return
	}
	g.number.Store(0)
}

// openGossip gives every node gossip that can be switched off.
func openGossip(cfg Config, places []local.Place) (map[string]*Gossip, error) {
	return shareAll(places, "BELFRY_GOSSIP_MUTE_FILE", filepath.Join(cfg.Dir, "gossip"),
		func(number *shared) *Gossip { return &Gossip{number} })
}

// GossipPorts returns the nodes' peer addresses if gossip has no key, which is on loopback. Beyond loopback gossip must
// have a key, and GossipPorts returns none.
func (s *Stand) GossipPorts() []string {
	if s.Network != nil {
		return nil
	}
	var addrs []string
	for _, n := range s.Cluster.Nodes() {
		addrs = append(addrs, n.PeerAddr)
	}
	return addrs
}
