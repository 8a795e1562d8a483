package control

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// listen empties Raft's channel, which Raft blocks on, and keeps the newest news for lead.
func (g *Group) listen(ctx context.Context, notify <-chan bool) {
	for {
		select {
		case leads := <-notify:
			select {
			case <-g.leads: // older
			default:
			}
			g.leads <- leads // only this goroutine sends, so there is room
		case <-ctx.Done():
			g.drain(notify)
			return
		}
	}
}

// drain stops Raft, and keeps it from blocking meanwhile.
func (g *Group) drain(notify <-chan bool) {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		g.stopped = g.raft.Shutdown().Error()
	}()
	for {
		select {
		case <-notify:
		case <-stopped:
			return
		}
	}
}

// leaderPatience is how many times as long the leader's heartbeat timeout is as its followers'. By a tenth of it Raft
// sends heartbeats, which is a quarter of what an idle cluster costs.
const leaderPatience = 2

// retime sets the timeouts of a leader, or of a follower.
func (g *Group) retime(leads bool) {
	c := g.raft.ReloadableConfig()
	c.HeartbeatTimeout, c.ElectionTimeout = g.cfg.Heartbeat, g.cfg.Heartbeat
	if leads {
		c.HeartbeatTimeout, c.ElectionTimeout = leaderPatience*g.cfg.Heartbeat, leaderPatience*g.cfg.Heartbeat
	}
	if err := g.raft.ReloadConfig(c); err != nil {
		g.cfg.Logger.Error("raft keeps its timeouts", "err", err)
	}
}

// lead reconciles for as long as this replica leads.
func (g *Group) lead(ctx context.Context) {
	var stop context.CancelFunc = func() {}
	ended := make(chan struct{})
	close(ended)
	for {
		select {
		case leads := <-g.leads:
			g.retime(leads)
			stop()
			<-ended
			if !leads {
				stop = func() {}
				continue
			}
			var leadership context.Context
			leadership, stop = context.WithCancel(ctx)
			ended = make(chan struct{})
			go func(ended chan struct{}) { defer close(ended); g.reconcile(leadership) }(ended)
		case <-ctx.Done():
			stop()
			<-ended
			return
		}
	}
}

// How long the reconciler waits after a step that failed, and between looks when nothing changes.
const (
	afterFailure = 500 * time.Millisecond
	betweenLooks = 5 * time.Second
)

// reconcile takes one step after the other until nothing is left to do, and then waits for a change.
func (g *Group) reconcile(ctx context.Context) {
	if err := await(ctx, g.raft.Barrier(0)); err != nil {
		g.cfg.Logger.Debug("no longer leading the control group", "err", err)
		return
	}
	for ctx.Err() == nil {
		state, changed := g.machine.watch()
		s, todo, err := next(state, g.servers(), g.cfg.Plan)
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

func (g *Group) take(ctx context.Context, s step) error {
	g.cfg.Logger.Info("control group", "step", s.what)
	if s.entry != nil {
		_, err := g.propose(ctx, s.entry)
		return err
	}
	future := g.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return err
	}
	// The index makes it a no-op's failure, not a second change, if somebody changed the membership meanwhile.
	id := raft.ServerID(s.nonvoter)
	err := await(ctx, g.raft.AddNonvoter(id, raft.ServerAddress(s.nonvoter), future.Index(), 5*time.Second))
	if errors.Is(err, raft.ErrNotLeader) {
		return g.explain(err)
	}
	return err
}

// servers is the membership; empty if it cannot be read, which is only after the end.
func (g *Group) servers() []raft.Server {
	future := g.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil
	}
	return future.Configuration().Servers
}

func isUnreadable(err error) bool { return errors.Is(err, errUnreadable) }
