package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/raftgroup"
)

// The pauses of the reconciler: after a failed step, between looks while nothing changes (nodes come and go without a
// change of the state), and at most until the nodes of a new cluster have registered.
const (
	afterFailure = 500 * time.Millisecond
	betweenLooks = time.Second
	registration = 4 // heartbeats
)

// reconciler takes the steps of the control group's leader, during one leadership.
type reconciler struct {
	group *Group
	mover *Mover
	slots *SlotMover
	grows *splitter
	erase *eraser
	bulks *bulkRunner
	loads loads
	began time.Time
	log   *slog.Logger

	mu    sync.Mutex
	seen  *sightings
	waits string // reason why the cluster has not the shape that it should have; "": it has
}

// reconcile runs while this replica leads.
func (g *Group) reconcile(ctx context.Context) {
	if err := g.group.Barrier(ctx); err != nil {
		g.cfg.Logger.Debug("no longer leading the control group", "err", err)
		return
	}
	var moving sync.WaitGroup
	defer moving.Wait()
	r := &reconciler{
		group: g, mover: NewMover(leader{g}, g.cfg.Shards, g.cfg.Logger), began: time.Now(), log: g.cfg.Logger,
		slots: NewSlotMover(leader{g}, g.cfg.Slots, g.cfg.Logger), seen: newSightings(g.cfg.Shards.Up),
		grows: newSplitter(g), erase: newEraser(g.cfg.Tasks, g, g.cfg.Limits.Calm, g.cfg.Clock, g.cfg.Logger),
		bulks: newBulkRunner(g.cfg.Tasks, g, g.cfg.Clock, g.cfg.Logger),
	}
	r.mover.Pause, r.slots.Pause = g.cfg.StepPause, g.cfg.StepPause
	g.leading.Store(r)
	defer g.leading.Store(nil)
	moving.Go(func() { r.mover.Run(ctx) })
	moving.Go(func() { newMender(g).run(ctx) })
	moving.Go(func() { r.loads.run(ctx, g.cfg.Shards.Commands) })
	if g.cfg.Slots != nil {
		moving.Go(func() { r.slots.Run(ctx) })
		moving.Go(func() { r.grows.run(ctx) })
	}
	if g.cfg.Tasks != nil {
		moving.Go(func() { r.erase.run(ctx) })
		moving.Go(func() { r.bulks.run(ctx) })
	}
	r.run(ctx)
}

// run takes one step after the other until none is left, and then waits for a change.
func (r *reconciler) run(ctx context.Context) {
	for ctx.Err() == nil {
		_, changed := r.group.machine.watch()
		l, err := r.look(ctx)
		var s step
		if err == nil {
			s, err = l.next()
		}
		if err == nil && s.what != "" {
			err = r.take(ctx, s, l.group)
		}
		r.note(s.waits)
		wait := betweenLooks
		switch {
		case err != nil:
			level := slog.LevelWarn
			if errors.Is(err, raftgroup.ErrUnfit) { // a change is under way, and nothing has been changed
				level = slog.LevelInfo
			}
			r.log.Log(ctx, level, "a step of the control group failed; it will be tried again", "step", s.what, "err", err)
			wait, changed = afterFailure, nil
		case s.what != "":
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

// look returns the state of the cluster as the next step needs it.
func (r *reconciler) look(ctx context.Context) (look, error) {
	g, now := r.group, time.Now()
	members, err := g.group.Membership(ctx)
	if err != nil {
		return look{}, err
	}
	state := g.State()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.look(state, now)
	return look{
		state: state, group: members, self: g.cfg.NodeID, plan: g.cfg.Plan, now: now, keys: g.cfg.Secrets,
		algorithms: g.cfg.Algorithms, clock: g.cfg.Clock(),
		nodes:    reshape.Nodes(state, func(node string) reshape.Sight { return r.seen.of(node, now) }, g.cfg.Limits),
		caughtUp: func(node string) bool { return r.caughtUp(node, members.Term) },
		balanced: func(nodes []placement.Node) *clusterpb.Retarget { return r.loads.balance(state, nodes, now) },
		leads:    func(node string) bool { return g.leads(node) > 0 },
		fresh:    now.Sub(r.began) < registration*g.cfg.Heartbeat,
	}, nil
}

// leads returns the number of shards that a node leads, as far as known.
func (g *Group) leads(node string) uint32 {
	count := uint32(0)
	for _, s := range g.State().Shards {
		if g.cfg.Shards.Leader(s.Id) == node {
			count++
		}
	}
	return count
}

func (r *reconciler) note(waits string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = waits
}

// caughtUp reports whether a member has answered within the last moments and lacks few entries.
func (r *reconciler) caughtUp(node string, term uint64) bool {
	if node == r.group.cfg.NodeID {
		return true
	}
	peer := r.group.group.Peer(node, term)
	return time.Since(peer.Contact) <= 2*r.group.cfg.Heartbeat && peer.Lag <= raftgroup.MostLag
}

// take makes a step that was decided for this membership of the control group.
func (r *reconciler) take(ctx context.Context, s step, seen raftgroup.Membership) error {
	r.log.Info("control group", "step", s.what)
	switch {
	case s.entry != nil:
		_, err := r.group.propose(ctx, s.entry)
		return err
	case s.transfer != "":
		return r.group.group.HandOver(ctx, s.transfer)
	}
	err := r.group.group.ChangeMembers(ctx, seen, s.change)
	if errors.Is(err, raftgroup.ErrNotLeader) {
		return r.group.explain(err)
	}
	return err
}

func isUnreadable(err error) bool { return errors.Is(err, errUnreadable) }
