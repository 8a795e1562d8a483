package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/moves"
)

// SlotsRequest asks the leader of a move's source for a batch of tasks: see moves.Request.
type SlotsRequest = moves.Request

// SlotsBatch is a batch of tasks on the move: see moves.Batch.
type SlotsBatch = moves.Batch

// SlotsProgress tells how far a move is: see moves.Progress.
type SlotsProgress = moves.Progress

// ErrMoveLost means that a leader of a move has changed during the copy. The move must begin anew.
var ErrMoveLost = moves.ErrLost

// ErrMoveRefused means that the state machine refuses a command of a move. The move must be given up.
var ErrMoveRefused = errors.New("a step of the move was refused")

// Slots returns the states of the slots that have taken part in moves, as this replica has applied them.
func (s *Shard) Slots() []*fsmpb.SlotState { return s.machine.Slots() }

// ReadSlots returns the next batch of tasks of slots that move away. Only the leader has it.
func (s *Shard) ReadSlots(ctx context.Context, r SlotsRequest) (SlotsBatch, error) {
	l, err := s.leadership(ctx)
	if err == nil {
		err = l.awaitReady(ctx)
	}
	if err != nil {
		return SlotsBatch{}, err
	}
	return l.source.Next(r)
}

// PullSlots is a move of slots to this shard.
type PullSlots struct {
	Move   uint64
	Ranges []fsm.SlotRange
	// Read calls ReadSlots of the source's leader.
	Read func(ctx context.Context, r SlotsRequest) (SlotsBatch, error)
	// Seal commits SealSlots at the source. It may be called again after an error.
	Seal func(ctx context.Context) error
	// Pace waits until so many bytes of copies may have passed: see moves.Pull. Nil: no limit.
	Pace func(ctx context.Context, bytes int) (left int, err error)
}

// PullSlots copies the tasks of slots that the shard expects, until a phase of the move is over or ctx ends: until the
// tasks are copied, the slots are sealed, or they are ready. It returns the progress also with an error. Only the
// leader does it. After ErrMoveLost and ErrMoveRefused the move must be given up; after other errors PullSlots may be
// called again.
func (s *Shard) PullSlots(ctx context.Context, p PullSlots) (SlotsProgress, error) {
	l, err := s.leadership(ctx)
	if err == nil {
		err = l.awaitReady(ctx)
	}
	if err != nil {
		return SlotsProgress{}, err
	}
	if phase, ok := phaseOf(p.Move, s.machine.Slots()); !ok || phase != fsmpb.SlotPhase_SLOT_PHASE_COMING {
		ready := phase == fsmpb.SlotPhase_SLOT_PHASE_READY || ok && phase == fsmpb.SlotPhase_SLOT_PHASE_OPEN
		if !ready {
			return SlotsProgress{}, fmt.Errorf("move %d: %w: the shard does not expect it", p.Move, ErrMoveRefused)
		}
		return SlotsProgress{Copied: true, Sealed: true, Ready: true}, nil
	}
	return l.target.Pull(ctx, moves.Pull{
		Move: p.Move, Ranges: p.Ranges, Fetch: p.Read, Seal: p.Seal, Pace: p.Pace, Commit: s.commitStep,
	}, s.machine.Copies())
}

// phaseOf returns the phase of the first slots of a move; ok is false if there are none.
func phaseOf(move uint64, slots []*fsmpb.SlotState) (_ fsmpb.SlotPhase, ok bool) {
	for _, p := range slots {
		if p.Move == move {
			return p.Phase, true
		}
	}
	return 0, false
}

// commitStep commits a command of a move.
func (s *Shard) commitStep(ctx context.Context, c *fsmpb.Command) error {
	reply := s.Do(ctx, []*fsmpb.Command{c})[0]
	if reply.Err != nil {
		return reply.Err
	}
	return StepError(reply.Result)
}

// StepError returns the error of a refused command of a move, or nil.
func StepError(r *fsmpb.Result) error {
	if r.Code == fsmpb.Code_CODE_OK {
		return nil
	}
	return fmt.Errorf("%w: %s %s", ErrMoveRefused, r.Field, r.Detail)
}

// shut returns the error of a call on a task whose slot is in this state, or nil if the slot is open. Stale reads of
// sealed slots are served.
func (s *Shard) shut(slot fsm.SlotState, stale bool) error {
	switch slot.Phase {
	case fsmpb.SlotPhase_SLOT_PHASE_SEALED:
		if stale {
			return nil
		}
		return &task.MovedError{Shard: slot.Shard, Epoch: slot.Epoch, Moving: true}
	case fsmpb.SlotPhase_SLOT_PHASE_GONE:
		return &task.MovedError{Shard: slot.Shard, Epoch: slot.Epoch}
	case fsmpb.SlotPhase_SLOT_PHASE_COMING, fsmpb.SlotPhase_SLOT_PHASE_READY:
		return &task.MovedError{Shard: s.cfg.ID, Epoch: slot.Epoch, Moving: true}
	}
	return nil
}

// movedIn makes errors of the results that refuse a command because of the task's slot.
func movedIn(replies []task.Reply) []task.Reply {
	for i, r := range replies {
		if isMoved(r.Result) {
			replies[i] = task.Reply{Err: &task.MovedError{
				Shard: r.Result.Task.GetShard(), Epoch: r.Result.Revision, Moving: r.Result.Code == fsmpb.Code_CODE_MOVING,
			}}
		}
	}
	return replies
}

func isMoved(r *fsmpb.Result) bool {
	return r != nil && (r.Code == fsmpb.Code_CODE_MOVING || r.Code == fsmpb.Code_CODE_MOVED)
}

// unbegun returns the settle of a grant whose attempt may not start. If the task has moved, its new shard grants it
// again.
func (f *firing) unbegun(g task.Grant, now time.Time) *fsmpb.Settle {
	if f.isMoving(g) {
		return released()
	}
	return stopped(now)
}

// forwardFor is the longest time for which the end of an attempt is forwarded. A lease ends soon after.
const forwardFor = 10 * time.Second

// forwardMoved passes the ends of attempts on to the shard that owns the tasks now. results begin with those of the
// settles.
func (p *proposer) forwardMoved(settles []settle, results []*fsmpb.Result) {
	var cmds []*fsmpb.Command
	for i, settled := range settles {
		if isMoved(results[i]) {
			cmds = append(cmds, settled.command())
		}
	}
	if len(cmds) > 0 && p.shard.cfg.Router != nil {
		p.shard.workers.Go(func() { p.forward(cmds) })
	}
}

// forward passes settles on, until the shard that owns the tasks takes calls. A settle that is lost leaves its task to
// the end of its lease, as after the death of a leader.
func (p *proposer) forward(cmds []*fsmpb.Command) {
	s := p.shard
	ctx, cancel := context.WithTimeout(s.ctx, forwardFor)
	defer cancel()
	for i, reply := range s.cfg.Router.Do(ctx, cmds) {
		if reply.Err != nil {
			s.cfg.Logger.Warn("the end of an attempt did not reach its task, which has moved", "task", cmds[i].Id,
				"err", reply.Err)
		}
	}
}

// command returns the settle as a command that another shard takes.
func (s *settle) command() *fsmpb.Command {
	c := s.decode()
	c.GetSettle().Pushed = true
	return c
}

func (s *settle) decode() *fsmpb.Command {
	_, _, n := protowire.ConsumeTag(s.framed)
	data, _ := protowire.ConsumeBytes(s.framed[n:])
	c := &fsmpb.Command{}
	if err := c.UnmarshalVTUnsafe(data); err != nil {
		panic(fmt.Sprintf("shard: a settle of this process cannot be read: %v", err))
	}
	return c
}
