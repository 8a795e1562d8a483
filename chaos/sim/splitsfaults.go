package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
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
		return c.faultAt("when "+step.name, c.world.nodes...), c.inBackground(hold, func(ctx context.Context) {
			if source, target := c.await(ctx, step); source != nil && target != nil {
				mend := hit(c, source, target)
				wait.For(ctx, lasts)
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
	for _, r := range replicasOn(w.nodes...) {
		in := func(part *fsmpb.SlotState) bool { return part.Move == m.Number && part.Phase == phase }
		if r.id == shard && slices.ContainsFunc(r.shard.Slots(), in) {
			return true
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
			wait.For(ctx, 2*time.Millisecond)
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

// seat is a reign that drives moves of slots. Its entries take a while, and the answers to some are lost.
type seat struct{ *reign }

var _ control.Decisions = seat{}

// Propose commits an entry, unless the reign is over. In one case of 16 the proposer misses the answer.
func (s seat) Propose(ctx context.Context, entry *clusterpb.ControlEntry) error {
	w, missed := s.world, false
	commit := w.luck.draw(func(rng *rand.Rand) time.Duration {
		missed = rng.IntN(16) == 0
		return load.Between(rng, time.Millisecond, 30*time.Millisecond)
	})
	if !wait.For(ctx, commit) {
		return task.ErrNotProposed
	}
	if err := s.reign.Propose(ctx, entry); err != nil {
		return err
	}
	if entry.GetTurnMove().GetState() == clusterpb.SlotMoveState_SLOT_MOVE_STATE_GIVING_UP {
		w.count(func(f *Figures) { f.GivenUp++ })
	}
	if missed {
		wait.For(ctx, time.Second)
		return task.ErrUnknown
	}
	return nil
}

// luck draws what depends on the order of events, and so on the runtime.
type luck struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (l *luck) draw(draw func(*rand.Rand) time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return draw(l.rng)
}

// faulty is the way of a process to the shards of a move. Commands arrive twice on it, or much too late.
type faulty struct {
	world  *World
	router *router.Router
}

var (
	_ control.Slots  = faulty{}
	_ replicas.Moves = faulty{}
)

// The fates of a command of a move, each one case in eight: it is lost on its way and arrives later, when its driver
// may be dead or the move given up; or it arrives a second time.
const (
	lost = iota
	repeated
	fates = 8
)

// Step commits a command of a move.
func (f faulty) Step(ctx context.Context, id uint32, c *fsmpb.Command) (more bool, err error) {
	fate := 0
	late := f.world.luck.draw(func(rng *rand.Rand) time.Duration {
		fate = rng.IntN(fates)
		return load.Between(rng, time.Millisecond, 20*time.Second)
	})
	if fate == lost || fate == repeated {
		again := proto.CloneOf(c)
		f.world.wg.Go(func() { f.world.stepLate(late, id, again) })
	}
	if fate == lost {
		<-ctx.Done()
		return false, fmt.Errorf("%w: %w", task.ErrUnknown, ctx.Err())
	}
	return f.router.Step(ctx, id, c)
}

// stepLate lets a command of a move arrive after a while, through a node that runs then. Its answer is dropped.
func (w *World) stepLate(after time.Duration, id uint32, c *fsmpb.Command) {
	if !w.sleep(after) {
		return
	}
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			ctx, cancel := context.WithTimeout(w.ctx, w.cfg.pace.callTimeout())
			defer cancel()
			_, _ = p.router.Step(ctx, id, c)
			return
		}
	}
}

// PullSlots has the target go on with the copy.
func (f faulty) PullSlots(
	ctx context.Context, target uint32, ask *clusterpb.PullSlotsCall,
) (*clusterpb.SlotsProgress, error) {
	return f.router.PullSlots(ctx, target, ask)
}

// ReadSlots returns a batch of tasks in slots that move away. In one case of 12 the answer is lost. Half of the batches
// are slow, as those of many tasks are: so a copy takes long enough for leaders to change meanwhile.
func (f faulty) ReadSlots(
	ctx context.Context, source uint32, ask *clusterpb.ReadSlotsCall,
) (*clusterpb.SlotsBatch, error) {
	missed := false
	slow := f.world.luck.draw(func(rng *rand.Rand) time.Duration {
		missed = rng.IntN(12) == 0
		return load.Between(rng, time.Millisecond, time.Second) * time.Duration(rng.IntN(2))
	})
	b, err := f.router.ReadSlots(ctx, source, ask)
	switch {
	case !wait.For(ctx, slow):
		return nil, ctx.Err()
	case missed && err == nil:
		return nil, fmt.Errorf("%w: the batch is lost", task.ErrNotProposed)
	}
	return b, err
}
