package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard"
)

// Slots is the way to the leaders of the shards between which slots move.
type Slots interface {
	// Step commits a command of a move in a shard's log. more means that the command has not done all of its work. The
	// error wraps shard.ErrMoveRefused if the shard's state does not allow the command.
	Step(ctx context.Context, id uint32, c *fsmpb.Command) (more bool, err error)
	// PullSlots has the target go on with the copy for a while. The error wraps shard.ErrMoveLost if the copy must begin
	// anew.
	PullSlots(ctx context.Context, target uint32, ask *clusterpb.PullSlotsCall) (*clusterpb.SlotsProgress, error)
}

// Decisions are the decisions on moves of shards and of slots, as the leader of the control group sees and takes them.
type Decisions interface {
	// Watch returns the state, which the caller must not change, and a channel that is closed when there is a newer one.
	Watch() (*clusterpb.ControlState, <-chan struct{})
	// Propose commits an entry. After an error that does not wrap task.ErrNotProposed the entry may be committed.
	Propose(ctx context.Context, entry *clusterpb.ControlEntry) error
}

// leader is the Group as the Decisions of its leader.
type leader struct{ *Group }

// Propose commits an entry.
func (l leader) Propose(ctx context.Context, entry *clusterpb.ControlEntry) error {
	_, err := l.decide(ctx, entry)
	return err
}

// The names of the steps of a move of slots, with their rows in the table of the package.
const (
	stepExpect  = "expect"  // 2
	stepCopy    = "copy"    // 3
	stepSeal    = "seal"    // 4
	stepReady   = "ready"   // 5
	stepDecide  = "decide"  // 6
	stepOpen    = "open"    // 7
	stepDrop    = "drop"    // 8
	stepGiveUp  = "give_up" // 9
	stepUnseal  = "unseal"  // 10
	stepAbandon = "abandon" // 11
	stepEnd     = "end"     // EndMove in 8 and 11
)

// The pauses and limits of moves of slots.
const (
	pullFor     = 500 * time.Millisecond // of one PullSlots
	sealedMost  = 2 * time.Second        // that a source stays sealed before its target is ready
	silentMost  = 5 * time.Second        // without an answer of the target
	beforeDrop  = time.Second            // that the source keeps its tasks, for grants that have not started yet
	betweenDrop = 10 * time.Millisecond
	leaseRest   = time.Second // of a lease after the opening: callers try again within some tens of milliseconds
	stepTasks   = 4096        // that one entry opens
	dropTasks   = 1024        // that one entry drops
	mostTries   = 8           // of a move that is given up
)

// errTooLong gives up a move whose slots are sealed for too long, or whose target does not answer.
var errTooLong = errors.New("the move takes too long")

// SlotMover drives the moves of slots during one leadership of the control group.
type SlotMover struct {
	Pause time.Duration // before each step, so that tests see it; 0: none

	decisions Decisions
	slots     Slots
	log       *slog.Logger

	sights slotSights
}

// NewSlotMover returns a SlotMover that is not running yet.
func NewSlotMover(d Decisions, s Slots, log *slog.Logger) *SlotMover {
	return &SlotMover{decisions: d, slots: s, log: log}
}

// Run drives all moves, side by side, until ctx ends.
func (m *SlotMover) Run(ctx context.Context) {
	var drives sync.WaitGroup
	defer drives.Wait()
	for ctx.Err() == nil {
		state, changed := m.decisions.Watch()
		for _, move := range state.SlotMoves {
			if m.sights.begin(move) {
				drives.Go(func() { m.drive(ctx, move.Number) })
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// begins notes the step that a move takes next.
func (m *SlotMover) begins(ctx context.Context, number uint64, step string) {
	m.sights.begins(number, step)
	wait.For(ctx, m.Pause) // the step fails if ctx has ended
}

// drive takes the steps of a move until it has ended. A step that fails is taken again.
func (m *SlotMover) drive(ctx context.Context, number uint64) {
	for ctx.Err() == nil {
		state, _ := m.decisions.Watch()
		at := moveAt(state, number)
		if at < 0 {
			return
		}
		err := m.step(ctx, state.SlotMoves[at])
		m.sights.stepped(number, err)
		if err != nil && ctx.Err() == nil {
			m.log.Info("a step of a move of slots is taken again", "move", number, "err", err)
			if !wait.For(ctx, moveLook) {
				return
			}
		}
	}
}

// step takes the move from its state to the next one.
func (m *SlotMover) step(ctx context.Context, move *clusterpb.SlotMove) error {
	switch move.State {
	case copying:
		return m.copy(ctx, move)
	case opening:
		return m.open(ctx, move)
	default:
		return m.giveUp(ctx, move)
	}
}

// copy has the target copy the tasks until it is ready, and then decides.
func (m *SlotMover) copy(ctx context.Context, move *clusterpb.SlotMove) error {
	m.begins(ctx, move.Number, stepExpect)
	err := m.commit(ctx, move, move.To, 0, &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
		Move: move.Number, Ranges: move.Ranges, From: move.From, Epoch: move.Number, Fresh: move.Fresh,
	}}})
	if err == nil {
		err = m.pull(ctx, move)
	}
	switch {
	case err == nil:
		return m.turn(ctx, move, opening)
	case errors.Is(err, shard.ErrMoveLost), errors.Is(err, shard.ErrMoveRefused), errors.Is(err, errTooLong):
		m.log.Warn("a move of slots is given up", "move", move.Number, "from", move.From, "to", move.To,
			"tries", move.Tries, "err", err)
		m.sights.givenUp(move, err)
		return m.turn(ctx, move, givingUp)
	}
	return err
}

// pull waits until the target is ready. Calls wait while the slots are sealed, so this must not take long.
func (m *SlotMover) pull(ctx context.Context, move *clusterpb.SlotMove) error {
	ask := &clusterpb.PullSlotsCall{
		Move: move.Number, Ranges: move.Ranges, From: move.From, Epoch: move.Number, ForMs: pullFor.Milliseconds(),
	}
	answered, sealed, step := time.Now(), time.Time{}, ""
	var last *clusterpb.SlotsProgress
	for ctx.Err() == nil {
		if next := stepAfter(last); next != step {
			step = next
			m.begins(ctx, move.Number, step)
		}
		limited, cancel := context.WithTimeout(ctx, silentMost)
		p, err := m.slots.PullSlots(limited, move.To, ask)
		cancel()
		if err == nil {
			last = p
			m.sights.copied(move.Number, p)
			err = flawDropsEarly(ctx, m, move, p)
		}
		switch {
		case p.GetReady():
			return nil
		case errors.Is(err, shard.ErrMoveLost), errors.Is(err, shard.ErrMoveRefused):
			return err
		case err != nil:
			if time.Since(answered) > silentMost {
				return fmt.Errorf("%w: the target does not answer: %w", errTooLong, err)
			}
			if !wait.For(ctx, moveLook) {
				return context.Cause(ctx)
			}
			continue
		case p.Sealed && sealed.IsZero():
			sealed = time.Now()
		}
		if answered = time.Now(); !sealed.IsZero() && time.Since(sealed) > sealedMost {
			return fmt.Errorf("%w: the slots are sealed, and %d changes are left", errTooLong, p.Left)
		}
	}
	return ctx.Err()
}

// stepAfter returns the next step of the copy of slots.
func stepAfter(p *clusterpb.SlotsProgress) string {
	switch {
	case p.GetSealed():
		return stepReady
	case p.GetCopied():
		return stepSeal
	default:
		return stepCopy
	}
}

func (m *SlotMover) turn(ctx context.Context, move *clusterpb.SlotMove, to clusterpb.SlotMoveState) error {
	m.begins(ctx, move.Number, map[clusterpb.SlotMoveState]string{opening: stepDecide, givingUp: stepGiveUp}[to])
	return m.decisions.Propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_TurnMove{
		TurnMove: &clusterpb.TurnMove{Number: move.Number, State: to},
	}})
}

// open has the target open the slots that it owns now, and the source drop them.
func (m *SlotMover) open(ctx context.Context, move *clusterpb.SlotMove) error {
	m.begins(ctx, move.Number, stepOpen)
	err := m.commit(ctx, move, move.To, 0, &fsmpb.Command{Op: &fsmpb.Command_OpenSlots{
		OpenSlots: &fsmpb.OpenSlots{Move: move.Number, Max: stepTasks, LeaseMs: leaseRest.Milliseconds()},
	}})
	if err != nil {
		return err
	}
	m.sights.opened(move.Number)
	m.begins(ctx, move.Number, stepDrop)
	if !wait.For(ctx, beforeDrop) {
		return context.Cause(ctx)
	}
	if err := flawSealsLast(ctx, m, move); err != nil {
		return err
	}
	if err := m.drop(ctx, move); err != nil {
		return err
	}
	m.sights.arrived(move)
	return m.end(ctx, move, false)
}

func (m *SlotMover) drop(ctx context.Context, move *clusterpb.SlotMove) error {
	return m.commit(ctx, move, move.From, betweenDrop, &fsmpb.Command{Op: &fsmpb.Command_DropSlots{
		DropSlots: &fsmpb.DropSlots{Move: move.Number, Max: dropTasks},
	}})
}

// giveUp has the source unseal the slots, and the target drop its copies. The move begins anew unless it has failed too
// often.
func (m *SlotMover) giveUp(ctx context.Context, move *clusterpb.SlotMove) error {
	m.begins(ctx, move.Number, stepUnseal)
	err := m.commit(ctx, move, move.From, 0, &fsmpb.Command{Op: &fsmpb.Command_UnsealSlots{
		UnsealSlots: &fsmpb.UnsealSlots{
			Move: move.Number, Max: stepTasks, LeaseMs: leaseRest.Milliseconds(),
			Ranges: move.Ranges, To: move.To, Epoch: move.Number,
		},
	}})
	if err != nil {
		return err
	}
	m.sights.opened(move.Number)
	m.begins(ctx, move.Number, stepAbandon)
	err = m.commit(ctx, move, move.To, betweenDrop, &fsmpb.Command{Op: &fsmpb.Command_AbandonSlots{
		AbandonSlots: &fsmpb.AbandonSlots{
			Move: move.Number, Max: dropTasks, Ranges: move.Ranges, From: move.From, Epoch: move.Number,
		},
	}})
	if err != nil {
		return err
	}
	return m.end(ctx, move, move.Tries+1 < mostTries)
}

func (m *SlotMover) end(ctx context.Context, move *clusterpb.SlotMove, again bool) error {
	m.begins(ctx, move.Number, stepEnd)
	return m.decisions.Propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndMove{
		EndMove: &clusterpb.EndMove{Number: move.Number, Again: again},
	}})
}

// commit commits a command of a move in a shard's log until it has done all of its work, with a pause between two
// parts.
func (m *SlotMover) commit(
	ctx context.Context, move *clusterpb.SlotMove, id uint32, between time.Duration, c *fsmpb.Command,
) error {
	for {
		limited, cancel := context.WithTimeout(ctx, moveCall)
		more, err := m.slots.Step(limited, id, c)
		cancel()
		if err != nil || !more {
			return err
		}
		m.sights.stepped(move.Number, nil)
		if !wait.For(ctx, between) {
			return context.Cause(ctx)
		}
	}
}

// Split begins to move half of a shard's slots to a new shard on the same nodes. A cluster with another number of
// shards refuses it, so that a repeated call splits once. This node must lead the group.
func (g *Group) Split(ctx context.Context, id, shards uint32) error {
	_, err := g.propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Split{
		Split: &clusterpb.Split{Shard: id, Shards: shards},
	}})
	return err
}

// MoveSlots begins to move slots between two shards. This node must lead the group.
func (g *Group) MoveSlots(ctx context.Context, from, to uint32, ranges []*fsmpb.SlotRange) error {
	_, err := g.propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_MoveSlots{MoveSlots: &clusterpb.MoveSlots{
		Ranges: ranges, From: from, To: to, Last: g.State().LastSlotMove,
	}}})
	return err
}
