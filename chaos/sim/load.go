package sim

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// load plays scripts against the cluster.
type load struct {
	world   *World
	course  *course
	backoff time.Duration // of a task's retries, at most
	probes  map[uint32]string

	mu  sync.Mutex
	ids []string // that were called
	is  map[string]bool
}

func newLoad(w *World, c *course) *load {
	return &load{
		world: w, course: c, backoff: min(10*time.Minute, w.cfg.pace.maxDelay/20),
		probes: map[uint32]string{}, is: map[string]bool{},
	}
}

// run plays all scripts, each from its own moment on, and returns when they are over.
func (l *load) run() {
	var wg sync.WaitGroup
	for i := range l.world.cfg.Scripts {
		rng := l.world.rng("script", i)
		at := l.moment(rng)
		wg.Go(func() {
			if l.world.sleep(at) {
				l.play(rng, i)
			}
		})
	}
	wg.Wait()
}

// moment is when a script begins: anywhere, or, more often than not, close to when something breaks or is mended.
func (l *load) moment(rng *rand.Rand) time.Duration {
	span := l.world.cfg.Span
	if m := l.course.moments; len(m) > 0 && rng.IntN(5) < 3 {
		return min(max(m[rng.IntN(len(m))]+l.offset(rng), 0), span)
	}
	return time.Duration(rng.Int64N(int64(span)))
}

// offset is a little before or some time after, on any scale.
func (l *load) offset(rng *rand.Rand) time.Duration {
	scales := []time.Duration{
		10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second,
		l.world.cfg.pace.heartbeat, 3 * l.world.cfg.pace.heartbeat,
	}
	scale := scales[rng.IntN(len(scales))]
	return time.Duration(rng.Int64N(int64(scale))) - scale/4
}

// due is when a new task is to be due: soon, about when something breaks, or any time.
func (l *load) due(rng *rand.Rand) time.Time {
	now := time.Now()
	switch n := rng.IntN(20); {
	case n == 0:
		return now.Add(-time.Second)
	case n < 6:
		return now.Add(time.Duration(rng.Int64N(int64(3 * time.Second))))
	case n < 13:
		if at, ok := l.nextMoment(rng, now); ok {
			return at
		}
	}
	return now.Add(between(rng, span(time.Millisecond, l.world.cfg.pace.maxDelay)))
}

// nextMoment is close to one of the next few at which something breaks or is mended.
func (l *load) nextMoment(rng *rand.Rand, now time.Time) (time.Time, bool) {
	after := now.Sub(l.course.begin)
	i, _ := slices.BinarySearchFunc(l.course.moments, after, cmp.Compare[time.Duration])
	left := len(l.course.moments) - i
	if left == 0 {
		return time.Time{}, false
	}
	at := l.course.begin.Add(l.course.moments[i+rng.IntN(min(left, 4))] + l.offset(rng))
	return at, at.After(now) && at.Sub(now) <= l.world.cfg.pace.maxDelay
}

// delay is until due.
func (l *load) delay(rng *rand.Rand) time.Duration {
	return max(time.Until(l.due(rng)), time.Millisecond).Truncate(time.Millisecond)
}

// called remembers an id.
func (l *load) called(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.is[id] {
		l.is[id] = true
		l.ids = append(l.ids, id)
	}
}

// call tries an operation once, through one node, and records it.
func (l *load) call(ctx context.Context, n *Node, patience time.Duration, o operation) (
	history.Outcome, history.Answer) {
	replies := l.callAll(ctx, n, patience, []operation{o}, false)
	return told(replies[0])
}

// callAll tries operations in one call. What of it was answered is recorded.
func (l *load) callAll(ctx context.Context, n *Node, patience time.Duration, ops []operation, batch bool) []task.Reply {
	w := l.world
	numbers := make([]int, len(ops))
	for i, o := range ops {
		what := o.what
		what.Node, what.Batch = n.name, batch
		numbers[i] = w.rec.Begin(what)
		l.called(what.ID)
	}
	replies := ask(ctx, n, patience, w.cfg.pace.callTimeout(), func(ctx context.Context, p *process) []task.Reply {
		return p.receive(ctx, ops)
	}, func(err error) []task.Reply { return calls.Refuse(len(ops), err) })
	for i, reply := range replies {
		outcome, answer := told(reply)
		if answer.Status == statusKeyReused {
			w.problem("operation %d: its key was another call's", ops[i].what.Op)
		}
		w.rec.End(numbers[i], outcome, answer)
	}
	return replies
}

// ask has a node do something for a caller outside, who waits for so long; the node itself for no longer than limit.
func ask[T any](ctx context.Context, n *Node, patience, limit time.Duration, do func(context.Context, *process) T,
	failed func(error) T) T {
	p := n.running()
	if p == nil {
		return failed(task.ErrNotProposed) // connection refused
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make(chan T, 1)
	go func() {
		if !p.host.Gate() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		answer := do(ctx, p)
		if p.host.Gate() {
			answers <- answer
		}
	}()
	select {
	case answer := <-answers:
		return answer
	case <-ctx.Done():
		return failed(task.ErrUnknown)
	case <-p.host.Life().Done():
		return failed(task.ErrUnknown)
	}
}

// final tells whether a repeat would be told the same again.
func final(outcome history.Outcome, a history.Answer) bool {
	return outcome == history.OK || a.Status >= 400 && a.Status < 500
}

// perform carries an operation out: it tries random nodes until one gives a final answer or its time is up.
func (l *load) perform(rng *rand.Rand, o operation) (history.Outcome, history.Answer) {
	w := l.world
	end := time.Now().Add(w.cfg.pace.retryFor())
	pause := 10 * time.Millisecond
	for {
		outcome, answer := l.call(w.ctx, l.anyNode(rng), l.patience(rng), o)
		if final(outcome, answer) || time.Now().After(end) || !w.sleep(pause) {
			return outcome, answer
		}
		pause = min(2*pause, max(250*time.Millisecond, w.cfg.pace.heartbeat/2))
	}
}

func (l *load) anyNode(rng *rand.Rand) *Node { return l.world.nodes[rng.IntN(len(l.world.nodes))] }

// patience is mostly longer than a node's own, and sometimes so short that the answer is missed while the call happens.
func (l *load) patience(rng *rand.Rand) time.Duration {
	if rng.IntN(15) == 0 {
		return time.Millisecond + time.Duration(rng.Int64N(int64(15*time.Millisecond)))
	}
	return l.world.cfg.pace.callTimeout() + time.Second
}

// get reads a task through a node.
func (l *load) get(ctx context.Context, n *Node, id string, isFinal bool) (history.Outcome, history.Answer) {
	what := history.Call{Kind: history.Get, ID: id, Final: isFinal}
	return l.read(ctx, n, what, func(ctx context.Context, p *process) (*fsmpb.Task, error) {
		return p.router.Get(ctx, "", id, false)
	})
}

// getStale reads a task from a node's own replica.
func (l *load) getStale(ctx context.Context, n *Node, id string, isFinal bool) (history.Outcome, history.Answer) {
	what := history.Call{Kind: history.Stale, ID: id, Final: isFinal}
	return l.read(ctx, n, what, func(ctx context.Context, p *process) (*fsmpb.Task, error) {
		return p.here().Get(ctx, l.world.shardOf(id), "", id, true)
	})
}

type read struct {
	task *fsmpb.Task
	err  error
}

func (l *load) read(ctx context.Context, n *Node, what history.Call,
	do func(context.Context, *process) (*fsmpb.Task, error)) (history.Outcome, history.Answer) {
	w := l.world
	what.Op, what.Node = w.rec.NextOp(), n.name
	number := w.rec.Begin(what)
	limit := w.cfg.pace.callTimeout()
	got := ask(ctx, n, limit+time.Second, limit, func(ctx context.Context, p *process) read {
		task, err := do(ctx, p)
		return read{task, err}
	}, func(err error) read { return read{err: err} })
	outcome, answer := history.OK, shown(got.task)
	switch {
	case got.err != nil:
		outcome, answer = toldError(got.err)
	case got.task == nil:
		outcome, answer = history.Failed, history.Answer{Status: statusNotFound}
	}
	w.rec.End(number, outcome, answer)
	return outcome, answer
}

// shardOf is where an id lives.
func (w *World) shardOf(id string) uint32 {
	slot := task.Slot("", id)
	for _, r := range w.state.Slots {
		if slot < r.End {
			return r.Shard
		}
	}
	return 0
}
