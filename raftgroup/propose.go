package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/wait"
)

// refusalPause is the pause before Commit offers a refused entry again.
const refusalPause = 2 * time.Millisecond

// Propose makes the leader append an entry, waits until it is applied here, and returns the machine's answer. It tries
// once. When ctx ends it returns the cause. An entry that Raft took by then may still be committed.
func (g *Group) Propose(ctx context.Context, data []byte) (any, error) {
	future, err := g.futures.awaitFuture(ctx, func() raft.Future { return g.append(ctx, data) })
	if err != nil {
		return nil, err
	}
	return answerOf(future)
}

// append gives an entry to Raft. It waits while a HandOver runs.
func (g *Group) append(ctx context.Context, data []byte) raft.Future {
	if err := g.proposing.Acquire(ctx, 1); err != nil {
		return refused{fmt.Errorf("%w: %w", ErrRefused, err)}
	}
	defer g.proposing.Release(1)
	return g.raft.Apply(data, enqueueTimeout(ctx))
}

// refused is the future of an entry that was not given to Raft.
type refused struct{ err error }

func (r refused) Error() error { return r.err }

// enqueueTimeout returns the time that Raft may take to accept an entry, since Raft ignores contexts.
func enqueueTimeout(ctx context.Context) time.Duration {
	const most, least = 10 * time.Second, time.Millisecond // 0 would mean no limit
	if until, ok := ctx.Deadline(); ok {
		return max(min(most, time.Until(until)), least)
	}
	return most
}

// Commit is Propose for an owner that proposes alone. It offers a refused entry again until ctx ends. It waits for an
// entry that Raft took even past the end of ctx. If no entry at all is applied for Timing.Stuck meanwhile, it calls
// Config.Fatal: a leader that keeps its followers and commits nothing blocks the group (for example after
// hashicorp/raft issue 696). The error is a *LostError if the leadership ends while the entry is under way.
func (g *Group) Commit(ctx context.Context, data []byte) (any, error) {
	fate := g.applier.fates.follow(data)
	limit := newStandstill(&g.applier.steps, g.cfg.Timing.Stuck, g.stuck)
	defer limit.stop()
	for {
		future, err := g.futures.awaitFuture(context.Background(), func() raft.Future { return g.raft.Apply(data, 0) })
		if errors.Is(err, ErrRefused) && wait.For(ctx, refusalPause) {
			continue
		}
		if errors.Is(err, raft.ErrLeadershipLost) {
			g.applier.fates.place(fate, future.(raft.ApplyFuture).Index())
			return nil, &LostError{group: g, fate: fate, err: err}
		}
		g.applier.fates.forget(fate)
		if err != nil {
			return nil, err
		}
		return answerOf(future)
	}
}

// stuck ends a group whose leader commits nothing.
func (g *Group) stuck() {
	g.fatal(fmt.Errorf("%s: as leader of term %d this node has committed nothing for %v",
		g.cfg.Name, g.raft.CurrentTerm(), g.cfg.Timing.Stuck))
}

// answerOf returns the machine's answer to an applied entry.
func answerOf(future raft.Future) (any, error) {
	answer := future.(raft.ApplyFuture).Response()
	if failed, ok := answer.(failure); ok {
		return nil, failed.err
	}
	return answer, nil
}

// Barrier waits until all entries committed before the call are applied here. It works on the leader only.
func (g *Group) Barrier(ctx context.Context) error {
	return g.futures.await(ctx, func() raft.Future { return g.raft.Barrier(0) })
}

// announceLimit is the time that Raft has to accept the entry of Announce.
const announceLimit = 100 * time.Millisecond

// Announce makes the leader append an empty entry and does not wait for it. A follower learns that an entry is
// committed from the next entry, or else only after Timing.Commit.
func (g *Group) Announce() {
	// A call that cannot begin any more needs no announcement, and the answer does not matter.
	_, _ = g.futures.begin(func() raft.Future { return g.raft.Barrier(announceLimit) })
}
