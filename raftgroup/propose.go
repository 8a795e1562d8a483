package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// refusalPause is how long Commit waits before it offers a refused entry again.
const refusalPause = 2 * time.Millisecond

// Propose has the leader append an entry, waits until it is applied here, and returns the machine's answer. It tries
// once. When ctx ends it returns the cause; an entry that Raft took by then may still be committed.
func (g *Group) Propose(ctx context.Context, data []byte) (any, error) {
	future, err := g.futures.awaitFuture(ctx, func() raft.Future { return g.raft.Apply(data, enqueueTimeout(ctx)) })
	if err != nil {
		return nil, err
	}
	return answerOf(future)
}

// enqueueTimeout is how long Raft may take to accept an entry: it does not look at a context.
func enqueueTimeout(ctx context.Context) time.Duration {
	const most, least = 10 * time.Second, time.Millisecond // 0 would mean no limit
	if until, ok := ctx.Deadline(); ok {
		return max(min(most, time.Until(until)), least)
	}
	return most
}

// Commit is Propose for an owner that proposes alone. It offers the entry again while Raft refuses it, until ctx ends;
// an entry that Raft took it waits for, whatever becomes of ctx. If nothing at all is applied meanwhile for
// Timing.Stuck, the group is given up: a leader that keeps its followers and commits nothing keeps the group from
// working (hashicorp/raft issue 696 is one way to get there).
func (g *Group) Commit(ctx context.Context, data []byte) (any, error) {
	limit := newStandstill(&g.applier.steps, g.cfg.Timing.Stuck)
	defer limit.stop()
	for {
		answer, err := g.commitOnce(data, limit)
		if !errors.Is(err, ErrRefused) || !sleep(ctx, refusalPause) {
			return answer, err
		}
		select {
		case <-limit.rings:
			g.checkStuck(limit, err)
		default:
		}
	}
}

func (g *Group) commitOnce(data []byte, limit *standstill) (any, error) {
	answers, err := g.futures.begin(func() raft.Future { return g.raft.Apply(data, 0) })
	if err != nil {
		return nil, err
	}
	for {
		select {
		case a := <-answers:
			if a.err != nil {
				return nil, a.err
			}
			return answerOf(a.Future)
		case <-g.futures.down:
			return nil, errStopped
		case <-limit.rings:
			g.checkStuck(limit, nil)
		}
	}
}

// answerOf returns the machine's answer to an entry that was applied.
func answerOf(future raft.Future) (any, error) {
	answer := future.(raft.ApplyFuture).Response()
	if failed, ok := answer.(failure); ok {
		return nil, failed.err
	}
	return answer, nil
}

func (g *Group) checkStuck(limit *standstill, last error) {
	if !limit.isReached() {
		return
	}
	err := fmt.Errorf("%s: as leader of term %d this node has committed nothing for %v",
		g.cfg.Name, g.raft.CurrentTerm(), g.cfg.Timing.Stuck)
	if last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	g.fatal(err)
}

// Barrier waits until all entries that were committed before the call are applied here. Only the leader can.
func (g *Group) Barrier(ctx context.Context) error {
	return g.futures.await(ctx, func() raft.Future { return g.raft.Barrier(0) })
}

// announceLimit bounds the wait for Raft to take an entry that only hurries others.
const announceLimit = 100 * time.Millisecond

// Announce has the leader append an empty entry, and does not wait for it. Followers learn from the next entry that the
// one before it is committed, or else only after Timing.Commit.
func (g *Group) Announce() {
	// A call that cannot begin any more needs no announcement, and its answer is of no interest.
	_, _ = g.futures.begin(func() raft.Future { return g.raft.Barrier(announceLimit) })
}
