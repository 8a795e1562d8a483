package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// aimed are the kinds of faults that wait for a step of a move of slots, and then strike the leaders of its two sides.
var aimed = []kind{
	{"crash of a move's source", aimedAt(func(c *conductor, source, _ *Node) func() { return c.crashFor(source) })},
	{"crash of a move's target", aimedAt(func(c *conductor, _, target *Node) func() { return c.crashFor(target) })},
	{"crash of both sides of a move", aimedAt(func(c *conductor, source, target *Node) func() {
		return c.crashFor(source, target)
	})},
	{"sides of a move apart", aimedAt((*conductor).part)},
	{"source of a move that hangs", aimedAt(func(_ *conductor, source, _ *Node) func() { return source.hang() })},
	{"target of a move that hangs", aimedAt(func(_ *conductor, _, target *Node) func() { return target.hang() })},
	{"leaders of a move moved", aimedAt((*conductor).depose)},
}

// aimedAt returns the strike of a kind of fault. hit breaks something at the leaders of a move's source and target, and
// returns the function that mends it.
func aimedAt(hit func(c *conductor, source, target *Node) (mend func())) func(
	*conductor, *rand.Rand, time.Duration) (history.Fault, func()) {
	return func(c *conductor, rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
		step := moveSteps[rng.IntN(len(moveSteps))]
		lasts := load.Between(rng, 50*time.Millisecond, 10*time.Second)
		return c.about("when "+step.name, c.world.nodes...), c.beside(hold, func(ctx context.Context) {
			if source, target := c.await(ctx, step); source != nil && target != nil {
				mend := hit(c, source, target)
				wire.Sleep(ctx, lasts)
				mend()
			}
		})
	}
}

// moveStep is a step of a move, as the world shows it.
type moveStep struct {
	name  string
	taken func(w *World, m *clusterpb.SlotMove) bool
}

var moveSteps = []moveStep{
	{"a move begins", func(*World, *clusterpb.SlotMove) bool { return true }},
	{"the target expects slots", func(w *World, m *clusterpb.SlotMove) bool {
		return w.isIn(m.To, m, fsmpb.SlotPhase_SLOT_PHASE_COMING)
	}},
	{"the source is sealed", func(w *World, m *clusterpb.SlotMove) bool {
		return w.isIn(m.From, m, fsmpb.SlotPhase_SLOT_PHASE_SEALED)
	}},
	{"the target is ready", func(w *World, m *clusterpb.SlotMove) bool {
		return w.isIn(m.To, m, fsmpb.SlotPhase_SLOT_PHASE_READY)
	}},
	{"the target owns the slots", func(_ *World, m *clusterpb.SlotMove) bool {
		return m.State == clusterpb.SlotMoveState_SLOT_MOVE_STATE_OPENING
	}},
	{"the target is open", func(w *World, m *clusterpb.SlotMove) bool {
		return w.isIn(m.To, m, fsmpb.SlotPhase_SLOT_PHASE_OPEN)
	}},
	{"a move is given up", func(_ *World, m *clusterpb.SlotMove) bool {
		return m.State == clusterpb.SlotMoveState_SLOT_MOVE_STATE_GIVING_UP
	}},
	{"the source drops tasks", func(w *World, m *clusterpb.SlotMove) bool {
		return w.isIn(m.From, m, fsmpb.SlotPhase_SLOT_PHASE_GONE)
	}},
}

// isIn reports whether a running replica of a shard has slots of a move in a phase.
func (w *World) isIn(shard uint32, m *clusterpb.SlotMove, phase fsmpb.SlotPhase) bool {
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			continue
		}
		r, err := p.shard(shard)
		if err != nil {
			continue
		}
		for _, part := range r.Slots() {
			if part.Move == m.Number && part.Phase == phase {
				return true
			}
		}
	}
	return false
}

// await waits until a move has taken a step, and returns the leaders of its sides. It returns nil nodes if ctx ends
// first, or a side has no leader.
func (c *conductor) await(ctx context.Context, step moveStep) (source, target *Node) {
	w := c.world
	for ctx.Err() == nil {
		state, changed := w.decisions.Watch()
		for _, m := range state.SlotMoves {
			if step.taken(w, m) {
				return w.leader(m.From), w.leader(m.To)
			}
		}
		if len(state.SlotMoves) > 0 {
			wire.Sleep(ctx, 2*time.Millisecond)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return nil, nil
}

func (c *conductor) crashFor(nodes ...*Node) (mend func()) {
	_, mend = c.crash(nodes...)
	return mend
}

// part cuts two nodes apart.
func (c *conductor) part(a, b *Node) (mend func()) {
	_, mend = c.network("", func(set func(from, to *Node, q wire.Quality)) {
		set(a, b, cut)
		set(b, a, cut)
	})
	return mend
}

// hang freezes the process of a node.
func (n *Node) hang() (mend func()) {
	p := n.running()
	if p == nil {
		return func() {}
	}
	p.host.Freeze()
	return p.host.Thaw
}

// depose transfers the leaderships of two nodes, as an operator would.
func (c *conductor) depose(a, b *Node) (mend func()) {
	for _, n := range []*Node{a, b} {
		p := n.running()
		if p == nil {
			continue
		}
		for _, r := range p.all() {
			c.world.wg.Go(func() { p.giveAway(r) })
		}
	}
	return func() {}
}
