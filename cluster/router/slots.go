package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard"
)

// The pauses of a call whose slot is on its way between two shards. The whole way takes some tens of milliseconds.
const (
	firstWait = 2 * time.Millisecond
	lastWait  = 20 * time.Millisecond
)

// chase is the way of a call after a slot that moves.
type chase struct{ tries int }

// wait waits before the next try. The first try after a slot that has moved comes at once. It returns false if ctx ends
// first.
func (c *chase) wait(ctx context.Context, moving bool) bool {
	if c.tries++; c.tries == 1 && !moving {
		return ctx.Err() == nil
	}
	return wait.For(ctx, min(firstWait<<min(c.tries-1, 10), lastWait))
}

// ownerOf returns the shard to ask for a slot after an error: the shard that the error names if the slot has moved
// there, else the one in the slot map.
func (r *Router) ownerOf(slot uint32, err error) uint32 {
	if moved := movedIn(err); moved != nil && !moved.Moving {
		return moved.Shard
	}
	return r.layout().slots[slot].Shard
}

func movedIn(err error) *task.MovedError {
	var moved *task.MovedError
	errors.As(err, &moved)
	return moved
}

// doMoved carries on commands some of which found their slots not open, until every command has a final answer.
// Commands about one id stay in one part, and so in their order.
func (r *Router) doMoved(ctx context.Context, p part, replies []task.Reply, way chase) {
	moving := false
	for _, at := range p.at {
		moved := movedIn(replies[at].Err)
		moving = moving || moved != nil && moved.Moving
	}
	if !way.wait(ctx, moving) {
		return // the replies are errors already
	}
	parts := split(p.cmds, func(i int) (uint32, int) {
		at := p.at[i]
		return r.ownerOf(task.Slot(p.cmds[i].Namespace, p.cmds[i].Id), replies[at].Err), at
	})
	var wg sync.WaitGroup
	for _, next := range parts {
		wg.Go(func() { r.doPiece(ctx, next, replies, way) })
	}
	wg.Wait()
}

// ReadSlots asks the leader of a move's source for a batch of tasks.
func (r *Router) ReadSlots(
	ctx context.Context, source uint32, ask *clusterpb.ReadSlotsCall,
) (*clusterpb.SlotsBatch, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	return read[*clusterpb.SlotsBatch](ctx, r, source, false, ask)
}

// PullSlots has the leader of a move's target go on with the copy for a while, less than a second.
func (r *Router) PullSlots(
	ctx context.Context, target uint32, ask *clusterpb.PullSlotsCall,
) (*clusterpb.SlotsProgress, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	return read[*clusterpb.SlotsProgress](ctx, r, target, false, ask)
}

// Step makes a shard's leader commit a command of a move, which may be repeated. more means that the command has not
// done all of its work. The error wraps shard.ErrMoveRefused if the shard's state does not allow the command.
func (r *Router) Step(ctx context.Context, id uint32, c *fsmpb.Command) (more bool, err error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	commit := func(ctx context.Context, n calls.Node) (*fsmpb.Result, error) {
		reply := n.Do(ctx, id, []*fsmpb.Command{c})[0]
		return reply.Result, reply.Err
	}
	result, err := readWithin(ctx, r, id, false, readPatience, commit)
	if err != nil {
		return false, err
	}
	if err := shard.StepError(result); err != nil {
		return false, fmt.Errorf("shard %d: %w", id, err)
	}
	return result.More, nil
}
