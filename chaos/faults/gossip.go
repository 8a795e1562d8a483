package faults

import (
	"context"
	"errors"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/stranger"
)

// gossipKinds returns kinds that break gossip alone: gossip is lost, or a stranger forges it. Gossip is a hint, so
// either may only cost time. These faults touch no process, and combine with all other faults.
func gossipKinds() []Kind {
	return []Kind{
		{Name: history.SilentGossip, Group: "gossip", Weight: 3, Needs: needsMutes,
			Strike: func(ctx context.Context, on Target) error {
				return (&gossipStrike{striking{Target: on, kind: history.SilentGossip}}).silence(ctx)
			}},
		{Name: history.ForgedGossip, Group: "gossip", Weight: 3, Needs: needsOpenGossip,
			Strike: func(ctx context.Context, on Target) error {
				return (&gossipStrike{striking{Target: on, kind: history.ForgedGossip}}).forge(ctx)
			}},
	}
}

func needsMutes(s *stand.Stand) error {
	if s.Gossip == nil {
		return errors.New("a stand whose nodes' gossip can be lost")
	}
	return nil
}

// ErrKeys means that the nodes' gossip has a key, as it must beyond loopback, and so cannot be forged.
var ErrKeys = errors.New("gossip without a key, on loopback alone; a siege of ten minutes has a drill of it")

func needsOpenGossip(s *stand.Stand) error {
	if s.Network != nil {
		return ErrKeys
	}
	return nil
}

// theGossip is the claim of each gossip fault, so that only one such fault strikes at a time.
const theGossip = "gossip"

type gossipStrike struct{ striking }

// silence loses the gossip of one node or of all nodes, in both directions.
func (s *gossipStrike) silence(ctx context.Context) error {
	nodes := s.some(1)
	if s.Rand.IntN(2) == 0 {
		nodes = s.Stand.Names()
	}
	hold := s.stretched()
	release, ok := s.Stand.Claim(theGossip)
	if !ok {
		return ErrBusy
	}
	defer release()
	fault := s.strike(ctx, nodes, "all of it lost, for %v", hold.Round(time.Millisecond))
	for _, n := range nodes {
		s.Stand.Gossip[n].Mute(true)
	}
	Wait(ctx, hold)
	s.Recorder.Mending(fault)
	for _, n := range nodes {
		s.Stand.Gossip[n].Mute(false)
	}
	s.Recorder.Mended(fault)
	return nil
}

// forge lets a stranger lie to all nodes for a while. The fault is mended as soon as the stranger falls silent, because
// the nodes must get rid of the lies by themselves.
func (s *gossipStrike) forge(ctx context.Context) error {
	hold := s.stretched()
	liar := stranger.Stranger{Addrs: s.Stand.GossipPorts(), Rand: s.Rand}
	release, ok := s.Stand.Claim(theGossip)
	if !ok {
		return ErrBusy
	}
	defer release()
	if liar.Learn(ctx) != nil {
		return ErrBusy // no node answers at the moment
	}
	fault := s.strike(ctx, s.Stand.Names(), "%d fakes and lies about all members, for %v", stranger.Fakes,
		hold.Round(time.Millisecond))
	lying, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	_, _, err := liar.Lie(lying)
	s.Recorder.Mending(fault)
	s.Recorder.Mended(fault)
	return err
}
