package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

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
	if !wire.Sleep(ctx, commit) {
		return task.ErrNotProposed
	}
	if err := s.reign.Propose(ctx, entry); err != nil {
		return err
	}
	if entry.GetTurnMove().GetState() == clusterpb.SlotMoveState_SLOT_MOVE_STATE_GIVING_UP {
		w.count(func(f *Figures) { f.GivenUp++ })
	}
	if missed {
		wire.Sleep(ctx, time.Second)
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
	case !wire.Sleep(ctx, slow):
		return nil, ctx.Err()
	case missed && err == nil:
		return nil, fmt.Errorf("%w: the batch is lost", task.ErrNotProposed)
	}
	return b, err
}
