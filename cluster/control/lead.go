package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/belfryhq/belfry/raftgroup"
)

// The pauses of the reconciler: after a failed step, between looks while nothing changes, and at most until the nodes
// of a new cluster have registered.
const (
	afterFailure = 500 * time.Millisecond
	betweenLooks = 5 * time.Second
	registration = 4 // heartbeats
)

// reconcile runs while this replica leads. It takes one step after the other until none is left, and then waits for a
// change.
func (g *Group) reconcile(ctx context.Context) {
	if err := g.group.Barrier(ctx); err != nil {
		g.cfg.Logger.Debug("no longer leading the control group", "err", err)
		return
	}
	if g.cfg.Shards != nil {
		var moving sync.WaitGroup
		moving.Go(func() { newMover(g).run(ctx) })
		defer moving.Wait()
	}
	for awaited := false; ctx.Err() == nil; {
		state, changed := g.machine.watch()
		if !awaited && awaitsVoters(state, g.group.Members()) {
			g.awaitVoters(ctx)
			awaited = true
			continue
		}
		s, todo, err := next(state, g.group.Members(), g.cfg.Plan)
		if todo {
			err = g.take(ctx, s)
		}
		wait := betweenLooks
		switch {
		case err != nil:
			g.cfg.Logger.Warn("a step of the control group failed; it will be tried again", "step", s.what, "err", err)
			wait, changed = afterFailure, nil
		case todo:
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// awaitVoters waits until all voters of a new cluster have registered, because their zones and weights decide where its
// shards are placed. It does not wait long: a node may have died meanwhile.
func (g *Group) awaitVoters(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, registration*g.cfg.Heartbeat)
	defer cancel()
	for ctx.Err() == nil {
		state, changed := g.machine.watch()
		if !awaitsVoters(state, g.group.Members()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (g *Group) take(ctx context.Context, s step) error {
	g.cfg.Logger.Info("control group", "step", s.what)
	if s.entry != nil {
		_, err := g.propose(ctx, s.entry)
		return err
	}
	seen, err := g.group.Membership()
	if err == nil {
		err = g.group.ChangeMembers(ctx, seen, raftgroup.MemberChange{AddNonvoter: s.nonvoter})
	}
	if errors.Is(err, raftgroup.ErrNotLeader) {
		return g.explain(err)
	}
	return err
}

func isUnreadable(err error) bool { return errors.Is(err, errUnreadable) }
