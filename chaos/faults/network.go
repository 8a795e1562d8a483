package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/chaos/stand"
)

// noCallers is the only kind after which attempts are repeated without a change of leader.
const noCallers = "node cut off from callers"

// networkKinds returns kinds that break the connections between the nodes and with their callers. They touch no
// process, so they claim no nodes, and combine with every other fault and with each other.
func networkKinds() []Kind {
	kind := func(name string, weight, nodes int, choose func(scene) damage,
		strike func(context.Context, *striking, damage) error) Kind {
		return Kind{Name: name, Group: "network", Weight: weight, Needs: needsNetwork(nodes),
			Strike: func(ctx context.Context, on Target) error {
				s := &striking{Target: on, kind: name}
				return strike(ctx, s, choose(s.scene(ctx)))
			}}
	}
	holds := func(name string, weight, nodes int, choose func(scene) damage) Kind {
		return kind(name, weight, nodes, choose, func(ctx context.Context, s *striking, d damage) error {
			return s.damage(ctx, d)
		})
	}
	return []Kind{
		holds("partition of a node", 8, 2, scene.partition),
		holds("minority apart from majority", 4, 4, scene.split),
		holds("partition that leaves no majority", 2, 2, scene.shatter),
		holds("node is not heard", 4, 2, scene.mute),
		holds("node hears nothing", 4, 2, scene.deaf),
		holds("two nodes apart", 5, 3, scene.bridge),
		holds(noCallers, 4, 1, scene.uncalled),
		holds("node cut off from everybody", 4, 2, scene.isolate),
		holds("packets are lost", 4, 2, scene.lose),
		holds("packets are late", 4, 2, scene.delay),
		holds("packets come twice and out of order", 4, 2, scene.jumble),
		kind("link flaps", 4, 3, scene.flap, func(ctx context.Context, s *striking, d damage) error {
			return s.flap(ctx, d)
		}),
	}
}

// ErrFewNodes means that a fault needs a larger cluster.
var ErrFewNodes = errors.New("more nodes")

func needsNetwork(nodes int) func(*stand.Stand) error {
	return func(s *stand.Stand) error {
		if s.Network == nil {
			return errors.New("a stand whose nodes are on a network of their own, which needs root: see netlab.Supported")
		}
		if n := len(s.Names()); n < nodes {
			return fmt.Errorf("%w: %d at least, not %d", ErrFewNodes, nodes, n)
		}
		return nil
	}
}

func (s *striking) scene(ctx context.Context) scene {
	sc := scene{rand: s.Rand, names: s.Stand.Names()}
	if leader := s.leader(ctx); len(leader) > 0 {
		sc.leader = leader[0]
	}
	return sc
}

// maxStretch is the largest factor by which a fault is prolonged. A longer partition shows other weaknesses, because
// connections and leases end in it.
const maxStretch = 3

func (s *striking) stretched() time.Duration {
	return s.Hold * time.Duration(1+s.Rand.IntN(maxStretch))
}

// damage damages the network for a while.
func (s *striking) damage(ctx context.Context, d damage) error {
	hold := s.stretched()
	f := s.fault(ctx, d.nodes, "%s, for %v", d.detail, hold.Round(time.Millisecond))
	f.Deaf, f.Spared = d.deafens(), true
	fault := s.Recorder.Strike(f)
	lift, err := d.do(s.Stand.Network)
	Wait(ctx, hold)
	s.Recorder.Mending(fault)
	err = errors.Join(err, lift())
	s.Recorder.Mended(fault)
	return err
}

// minFlap and maxFlap bound the time that a flapping link is cut, and the time that it is whole between two cuts.
const minFlap, maxFlap = 20 * time.Millisecond, 900 * time.Millisecond

// flap damages the network and lifts the damage, again and again.
func (s *striking) flap(ctx context.Context, d damage) error {
	type span struct{ cut, whole time.Duration }
	draw := func() time.Duration { return minFlap + time.Duration(s.Rand.Int64N(int64(maxFlap-minFlap))) }
	var spans []span
	for all := time.Duration(0); all < s.Hold; {
		next := span{draw(), draw()}
		spans, all = append(spans, next), all+next.cut+next.whole
	}
	f := s.fault(ctx, d.nodes, "%s, %d times in %v", d.detail, len(spans), s.Hold.Round(time.Millisecond))
	f.Spared = true
	fault := s.Recorder.Strike(f)
	var failed error
	for _, span := range spans {
		lift, err := d.do(s.Stand.Network)
		Wait(ctx, span.cut)
		failed = errors.Join(failed, err, lift())
		if !Wait(ctx, span.whole) {
			break
		}
	}
	s.Recorder.Mending(fault)
	s.Recorder.Mended(fault)
	return failed
}
