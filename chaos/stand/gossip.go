package stand

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/belfryhq/belfry/deploy/local"
)

// Gossip switches a node's gossip off and on, in both directions.
type Gossip struct{ *shared }

// Mute drops all of the node's gossip from now on, or no more of it.
func (g *Gossip) Mute(on bool) {
	if on {
		g.number.Store(1)
		return
	}
	g.number.Store(0)
}

// openGossip makes every node's gossip one that can be lost.
func openGossip(cfg Config, places []local.Place) (map[string]*Gossip, error) {
	all := make(map[string]*Gossip, len(places))
	for i, name := range names(len(places)) {
		number, err := share(&places[i], "BELFRY_GOSSIP_MUTE_FILE", filepath.Join(cfg.Dir, "gossip", name))
		if err != nil {
			return all, fmt.Errorf("the gossip of %s: %w", name, err)
		}
		all[name] = &Gossip{number}
	}
	return all, nil
}

func (s *Stand) closeGossip() error {
	var errs []error
	for _, g := range s.Gossip {
		errs = append(errs, g.close())
	}
	s.Gossip = nil
	return errors.Join(errs...)
}

// GossipPorts are the nodes' peer addresses if gossip has no key there; none if it has one, as it must beyond loopback.
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
