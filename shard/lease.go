package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// Lease opens a consumer's demand for req.Max tasks. The demand lasts until it is withdrawn or this leadership ends.
// The error is a *task.NotLeaderError. The request must name its namespace and queue.
func (s *Shard) Lease(req task.LeaseRequest, c desk.Consumer) (*desk.Demand, error) {
	l := s.current()
	if l == nil {
		return nil, s.notLeader()
	}
	lane := task.Lane{Namespace: req.Namespace, Queue: req.Queue}
	return l.desk.Open(lane, desk.Terms{Lease: req.Lease, Holder: req.Holder}, uint64(max(req.Max, 0)), c)
}

// lessor is a leadership as its desk sees it.
type lessor struct{ lead *leadership }

// Changed tells the planner of a lane's demand.
func (d lessor) Changed(lane task.Lane) {
	l := d.lead
	l.proposer.intake.tell(func(p *dispatch.Planner, now time.Time) { p.Asked(now, lane, l.desk.Asked(lane)) })
}

// Look makes the planner find out whether a task is there.
func (d lessor) Look(lane task.Lane) {
	d.lead.proposer.intake.tell(func(p *dispatch.Planner, _ time.Time) { p.Look(lane) })
}

// Keep returns twice the horizon.
func (d lessor) Keep() time.Duration { return 2 * d.lead.shard.latencies.horizon() }

// Release settles grants as released.
func (d lessor) Release(grants []task.Grant) []task.Grant { return d.lead.firing.release(grants) }

// Task returns the task of a consumer's grant, or nil if its lease is over or its window is closed.
func (d lessor) Task(g task.Grant) *fsmpb.Task {
	l, s := d.lead, d.lead.shard
	now, _ := s.clock.now()
	task, leaseEndMs, ok := s.machine.Attempt(g.Namespace, g.ID, g.Fence)
	if !ok {
		l.firing.settle(g, l.firing.unbegun(g, now), nil)
		return nil
	}
	if leaseEndMs <= now.UnixMilli() {
		return nil // this node was stopped: the end of the lease has retried the task, or will
	}
	if opens, closed := s.opening(task, s.cfg.Policies.Policy(g.Lane.Namespace, g.Lane.Queue), now); closed {
		l.firing.settle(g, held(g, opens), nil)
		return nil
	}
	return task
}

// leased returns the grants that answer consumers' demands.
func leased(grants []task.Grant) []task.Grant {
	leased, _ := split(grants)
	return leased
}

// split returns the grants that answer consumers' demands and those of pushed tasks, both in order. It returns grants
// itself if all are of one kind.
func split(grants []task.Grant) (leased, pushed []task.Grant) {
	n := 0
	for i := range grants {
		if grants[i].Tag != 0 {
			n++
		}
	}
	switch n {
	case 0:
		return nil, grants
	case len(grants):
		return grants, nil
	}
	leased, pushed = make([]task.Grant, 0, n), make([]task.Grant, 0, len(grants)-n)
	for _, g := range grants {
		if g.Tag != 0 {
			leased = append(leased, g)
		} else {
			pushed = append(pushed, g)
		}
	}
	return leased, pushed
}

// longestHold is the longest time that an ended leadership holds a lease to its instant.
const longestHold = 2 * maxHorizon

// closeDesk closes the desk after all workers have ended. Held leases are still handed over at their instants: a lease
// belongs to no leadership, and no other leader would hand it over before it ends.
func (l *leadership) closeDesk() {
	reason := l.shard.notLeader()
	held := l.firing.takeLeased()
	if len(held) == 0 {
		l.desk.Close(reason)
		return
	}
	l.shard.attempts.begin()
	go func() {
		defer l.shard.attempts.end()
		defer l.desk.Close(reason)
		for _, g := range held {
			now, _ := l.shard.clock.now()
			ahead := time.UnixMilli(g.StartMs).Sub(now)
			if ahead > longestHold || !wait.For(l.shard.attempts.ctx, ahead) {
				return // the clock was set back, and the leases end on their own
			}
			l.desk.Start([]task.Grant{g})
		}
	}()
}

// takeLeased removes all held grants for good, and returns the leases among them, by instant.
func (f *firing) takeLeased() []task.Grant {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := f.held
	f.held, f.ended = nil, true
	slices.SortFunc(held, func(a, b *heldGrant) int {
		return cmp.Or(cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(a.order, b.order))
	})
	var grants []task.Grant
	for _, g := range held {
		f.uncount(g)
		grants = append(grants, g.Grant)
	}
	return leased(grants)
}
