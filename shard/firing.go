package shard

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// firing holds granted attempts until they are due and starts them. A waiting grant is a name and an instant; the
// payload is read when the attempt starts.
type firing struct {
	lead    *leadership
	shard   *Shard
	changed chan struct{} // capacity 1: look again

	mu     sync.Mutex
	held   grantHeap
	order  uint64 // order of the last grant added; grants of equal instants start in the order of their grants
	paused bool
	ended  bool // no grant starts any more
	// starting is set while due grants have left held and have not started yet.
	starting bool
}

type heldGrant struct {
	task.Grant
	order   uint64
	atMs    int64 // when it may start: Grant.StartMs, or later while there are too many attempts
	counted bool  // it counts in the node's crowd
}

func newFiring(l *leadership) *firing {
	return &firing{lead: l, shard: l.shard, changed: make(chan struct{}, 1)}
}

// add takes the grants of one entry. While starts are paused, it gives grants back at once unless a Takeover renewed
// them.
func (f *firing) add(grants []task.Grant, renewed bool) {
	if len(grants) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	held := make([]heldGrant, len(grants))
	for i, g := range grants {
		f.order++
		g.Renewed = renewed
		held[i] = heldGrant{Grant: g, order: f.order, atMs: g.StartMs}
		f.hold(&held[i])
	}
	if f.paused {
		f.giveBackHeld()
	}
	wake(f.changed)
}

// hold keeps a grant. Its attempt counts in the node's crowd from now on, for the next plan. An attempt that a Takeover
// renewed was in no plan, and waits if there is no room for it.
func (f *firing) hold(g *heldGrant) {
	if f.ended {
		return
	}
	switch {
	case g.Tag != 0:
	case g.Renewed:
		g.counted = f.shard.cfg.Crowd.TryBegin(g.Lane)
	default:
		f.shard.cfg.Crowd.Begin(g.Lane)
		g.counted = true
	}
	heap.Push(&f.held, g)
}

// uncount takes a held grant out of the node's crowd.
func (f *firing) uncount(g *heldGrant) {
	if g.counted {
		f.shard.cfg.Crowd.End(g.Lane)
	}
}

// over counts an attempt as ended, or as not begun after all.
func (f *firing) over(g task.Grant) {
	f.shard.cfg.Crowd.End(g.Lane)
	f.shard.attempts.end()
}

// crowdedFor is the pause before a renewed attempt tries again to find room in the node's crowd.
const crowdedFor = 100 * time.Millisecond

// run starts due grants until the leadership ends. It then drops the grants it holds, except leases: the next Takeover
// grants the dropped ones anew.
func (f *firing) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-timer.C:
		}
		due := f.due()
		if len(due) > 0 && !f.start(ctx, due) {
			return
		}
		if f.shard.cfg.DevClock != nil {
			f.started(due)
		}
		if wait, ok := f.untilNext(); ok {
			timer.Reset(wait)
		}
	}
}

// due removes and returns all grants whose instant has come. Their attempts count as running from here on. Otherwise a
// transfer could begin while this leader still verifies its leadership, and the next leader would repeat them.
func (f *firing) due() []task.Grant {
	now, _ := f.shard.clock.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	var popped []*heldGrant
	for !f.paused && len(f.held) > 0 && f.held[0].atMs <= now.UnixMilli() {
		g := heap.Pop(&f.held).(*heldGrant)
		if g.Tag == 0 && !g.counted && !f.shard.cfg.Crowd.TryBegin(g.Lane) {
			g.atMs = now.Add(crowdedFor).UnixMilli()
			heap.Push(&f.held, g)
			continue
		}
		if g.Tag == 0 {
			f.shard.attempts.begin()
		}
		popped = append(popped, g)
	}
	f.starting = len(popped) > 0
	due := make([]task.Grant, len(popped))
	for i, g := range popped {
		due[i] = g.Grant
	}
	return due
}

// started counts grants that have started, for a dev clock.
func (f *firing) started(grants []task.Grant) {
	f.shard.dev.count(grants)
	f.mu.Lock()
	f.starting = false // after the count, which CatchUp promises with it
	f.mu.Unlock()
	if len(grants) > 0 {
		f.shard.dev.stir()
	}
}

// heldBack returns the number of held grants of pushed attempts.
func (f *firing) heldBack() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.held {
		if g.Tag == 0 {
			n++
		}
	}
	return n
}

// next returns the instant of the first held grant in Unix milliseconds; never: none. Grants that are about to start
// count as due.
func (f *firing) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.starting:
		return 0
	case len(f.held) == 0 || f.paused:
		return never
	}
	return f.held[0].atMs
}

// untilNext returns how long the next grant must still be held; ok is false if there is none.
func (f *firing) untilNext() (_ time.Duration, ok bool) {
	now, _ := f.shard.clock.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused || len(f.held) == 0 {
		return 0, false
	}
	return max(time.UnixMilli(f.held[0].atMs).Sub(now), 0), true
}

// start begins attempts after verifying that this node still leads. Otherwise it drops the pushed grants and returns
// false.
func (f *firing) start(ctx context.Context, due []task.Grant) bool {
	now, _ := f.shard.clock.now()
	for i := range due {
		g := &due[i]
		late := now.Sub(time.UnixMilli(g.StartMs))
		f.shard.metrics.started(late)
		f.shard.cfg.Node.Began(g.Lane.Namespace, g.Lane.Queue, late)
		f.shard.applier.activity.Began(now, late, g.Waited)
	}
	leased, pushed := split(due)
	if len(leased) > 0 {
		f.lead.desk.Start(leased) // no other leader hands leases over, so leadership need not be verified
	}
	if len(pushed) > 0 {
		if !f.lead.inTouch(ctx) {
			for _, g := range pushed {
				f.over(g)
			}
			return false
		}
		f.launch(pushed)
	}
	return true
}

// settle queues a grant's verdict with the leadership that made the grant, and reports whether it could.
func (f *firing) settle(g task.Grant, op *fsmpb.Settle, how *dispatch.Ending) (queued bool) {
	s, err := newSettle(g, op, how)
	if err != nil {
		f.logUnsettled(g, err)
		return true // the lease will end on its own
	}
	return f.queue(s)
}

// queue queues a settle. After the end of the leadership only a success is still useful as it is, and only if this node
// leads again: a failure settles under the current fence alone.
func (f *firing) queue(s settle) (queued bool) {
	if f.lead.proposer.intake.settle(s) {
		return true
	}
	l := f.shard.current()
	return s.delivered && l != nil && l.proposer.intake.settle(s)
}

func (f *firing) logUnsettled(g task.Grant, err error) {
	f.shard.cfg.Logger.Error("settle cannot be encoded", "task", g.ID, "fence", g.Fence, "err", err)
}

// renew passes the grants of this leadership's Takeover to the open attempts of the same tasks, settles those of them
// that have ended, and returns the other grants, whose attempts must start.
func (f *firing) renew(grants []task.Grant) (start []task.Grant) {
	start, ended := f.shard.attempts.renew(f, grants)
	for _, s := range ended {
		f.queue(s)
	}
	return start
}

// pause holds new attempts back and returns grants not yet started to their lanes. The proposer grants none meanwhile.
func (f *firing) pause() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = true
	f.giveBackHeld()
	f.lead.desk.Sweep()
}

func (f *firing) giveBackHeld() {
	var kept grantHeap
	var back []*heldGrant
	for _, g := range f.held {
		if g.Renewed {
			kept = append(kept, g)
		} else {
			f.uncount(g)
			back = append(back, g)
		}
	}
	f.held = kept
	heap.Init(&f.held)
	slices.SortFunc(back, func(a, b *heldGrant) int { return cmp.Compare(a.order, b.order) })
	grants := make([]task.Grant, len(back))
	for i, g := range back {
		grants[i] = g.Grant
	}
	f.giveBack(grants)
}

// giveBack returns grants that were not started, in the order in which they were made.
func (f *firing) giveBack(grants []task.Grant) {
	left := f.release(grants)
	f.lead.desk.GivenBack(leased(grants))
	f.lead.desk.Unload(leased(left))
}

// release settles each grant as released, the last one first, because each goes to the head of its lane. It returns the
// grants that came too late for this leadership.
func (f *firing) release(grants []task.Grant) (left []task.Grant) {
	for _, g := range slices.Backward(grants) {
		if !f.settle(g, released(), nil) {
			left = append(left, g)
		}
	}
	return left
}

// holdUntil takes the grant of an attempt back that may start only a moment later. The attempt no longer counts as
// running.
func (f *firing) holdUntil(o *openAttempt, ms int64) {
	g, by := f.shard.attempts.close(o)
	g.StartMs = ms
	f.over(g)
	by.add([]task.Grant{g}, g.Renewed)
}

func (f *firing) resume() {
	f.mu.Lock()
	f.paused = false
	f.mu.Unlock()
	wake(f.changed)
	f.lead.proposer.intake.requestGrants()
}

func (f *firing) isPaused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused
}

// grantHeap is a heap of grants ordered by instant, then by the order of their grants.
type grantHeap []*heldGrant

func (h grantHeap) Len() int { return len(h) }
func (h grantHeap) Less(i, j int) bool {
	if h[i].atMs != h[j].atMs {
		return h[i].atMs < h[j].atMs
	}
	return h[i].order < h[j].order
}
func (h grantHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *grantHeap) Push(x any)   { *h = append(*h, x.(*heldGrant)) }
func (h *grantHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}
