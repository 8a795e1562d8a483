package shard

import (
	"context"
	"sync"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// attempts counts the attempts that run on this node for this shard, over all its leaderships. It knows the pushed ones
// by task: when this node leads again, its Takeover must not repeat an attempt that still runs here, nor one whose end
// was not committed.
type attempts struct {
	ctx    context.Context // cancelled when the shard stops waiting for the attempts
	cancel context.CancelFunc

	mu      sync.Mutex
	running int
	idle    chan struct{} // closed while none runs

	// open holds the newest attempt of each task from its start until the entry with its settle is applied. A task counts
	// in its lane for as long, so the lanes' windows bound the number of attempts, of some 400 bytes each. Attempts of an
	// ended leadership stay until this node's next Takeover.
	open map[taskName]*openAttempt
}

type taskName struct{ namespace, id string }

func nameOf(g task.Grant) taskName { return taskName{g.Namespace, g.ID} }

// openAttempt is a pushed attempt without an end in the log. The mutex of attempts guards its fields.
type openAttempt struct {
	grant  task.Grant // the newest grant that it stands for
	firing *firing    // of the leadership that made the grant
	number uint32     // of the attempt; 0: its task has not been read yet
	end    *settle    // nil: it runs
}

func newAttempts() *attempts {
	ctx, cancel := context.WithCancel(context.Background())
	a := &attempts{ctx: ctx, cancel: cancel, idle: make(chan struct{}), open: map[taskName]*openAttempt{}}
	close(a.idle)
	return a
}

func (a *attempts) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running == 0 {
		a.idle = make(chan struct{})
	}
	a.running++
}

func (a *attempts) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running--; a.running == 0 {
		close(a.idle)
	}
}

// wait waits until no attempt runs or ctx ends.
func (a *attempts) wait(ctx context.Context) error {
	a.mu.Lock()
	idle := a.idle
	a.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *attempts) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running
}

// start opens the attempt of a grant.
func (a *attempts) start(f *firing, g task.Grant) *openAttempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := &openAttempt{grant: g, firing: f}
	a.open[nameOf(g)] = o
	return o
}

// read returns the newest grant of an attempt that is about to be made, with its task and the end of its lease in Unix
// milliseconds. The task is nil if the grant has been superseded or a cancel has stopped it.
func (a *attempts) read(o *openAttempt, m *fsm.Machine) (g task.Grant, t *fsmpb.Task, leaseEndMs int64) {
	for {
		g = a.newest(o)
		t, leaseEndMs, ok := m.Attempt(g.Namespace, g.ID, g.Fence)
		if ok {
			a.mu.Lock()
			defer a.mu.Unlock()
			o.number = t.Attempts
			return g, t, leaseEndMs
		}
		if a.newest(o).Fence == g.Fence {
			return g, nil, 0
		}
	}
}

func (a *attempts) newest(o *openAttempt) task.Grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	return o.grant
}

// close forgets an attempt that was not made. It returns the attempt's newest grant and the leadership of the grant.
func (a *attempts) close(o *openAttempt) (task.Grant, *firing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(o)
	return o.grant, o.firing
}

// forget removes an attempt unless a newer one of its task has taken its place.
func (a *attempts) forget(o *openAttempt) {
	if name := nameOf(o.grant); a.open[name] == o {
		delete(a.open, name)
	}
}

// conclude records the end of an attempt. It returns the settle and the leadership that must queue it.
func (a *attempts) conclude(o *openAttempt, op *fsmpb.Settle, how *dispatch.Ending) (settle, *firing, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, err := newSettle(o.grant, op, how)
	if err != nil {
		a.forget(o)
		return settle{}, nil, err
	}
	s.attempt = o
	o.end = &s
	return s, o.firing, nil
}

// settled forgets the attempts whose settles are applied.
func (a *attempts) settled(settles []settle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range settles {
		if s.attempt != nil {
			a.forget(s.attempt)
		}
	}
}

// renew passes the grants of a Takeover, just applied, to the open attempts of the same tasks. It returns the other
// grants, and the settles of the attempts that have ended. It forgets an ended attempt without a grant: the task has
// moved on under another leader, or the end was committed after all.
//
// A task in a slot that is not open keeps the fence of its copy at the other shard. The settle is passed on there.
func (a *attempts) renew(f *firing, grants []task.Grant) (start []task.Grant, ended []settle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.open) == 0 {
		return grants, nil
	}
	kept := map[*openAttempt]bool{}
	for _, g := range grants {
		switch o := a.open[nameOf(g)]; {
		case o != nil && f.isMoving(o.grant):
		case o != nil && o.isOf(f.machine(), g):
			kept[o] = true
			if s, ok := o.standFor(f, g); ok {
				ended = append(ended, s)
			}
		default:
			start = append(start, g)
		}
	}
	return start, append(ended, a.sweep(f, kept)...)
}

// standFor makes an attempt stand for a renewed grant. It returns the settle of the grant if the attempt has ended.
func (o *openAttempt) standFor(f *firing, g task.Grant) (_ settle, ended bool) {
	g.Renewed = true
	o.grant, o.firing = g, f
	if o.end == nil {
		return settle{}, false
	}
	s, err := o.end.under(g)
	if err != nil {
		f.logUnsettled(g, err)
		return settle{}, false
	}
	o.end = &s
	return s, true
}

// sweep forgets the ended attempts that are not kept. It returns the settles of those whose tasks are in slots that are
// not open.
func (a *attempts) sweep(f *firing, kept map[*openAttempt]bool) (moved []settle) {
	for _, o := range a.open {
		if o.end == nil || kept[o] {
			continue
		}
		a.forget(o)
		if f.isMoving(o.grant) {
			moved = append(moved, *o.end)
		}
	}
	return moved
}

// isOf reports whether a renewed grant is of the attempt that o makes, and not of a later one.
func (o *openAttempt) isOf(m *fsm.Machine, g task.Grant) bool {
	t, _, ok := m.Attempt(g.Namespace, g.ID, g.Fence)
	return ok && g.Occurrence == o.grant.Occurrence && (o.number == 0 || o.number == t.Attempts)
}

// isMoving reports whether the task of a grant is in a slot that is not open here.
func (f *firing) isMoving(g task.Grant) bool {
	return f.shard.machine.SlotOf(g.Namespace, g.ID).Phase != fsmpb.SlotPhase_SLOT_PHASE_OPEN
}
