package sim

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const prefix = "t-" // of all ids of scripts

// driver makes the calls of a load against simulated nodes, and draws the delays and start times of the load.
type driver struct {
	world  *World
	course *course
	player *load.Player
	probes []string // ids of tasks that are due long after the run

	mu   sync.Mutex
	ids  []string        // ids of all calls so far, in order of the first call
	seen map[string]bool // the same ids
}

func newLoad(w *World, c *course) *driver {
	l := &driver{world: w, course: c, seen: map[string]bool{}}
	pace := w.cfg.pace
	l.player = load.New(load.Config{
		Driver: l, Recorder: w.rec, Seed: w.cfg.Seed, Prefix: prefix, Hot: 3, HotEvery: 9,
		Weights:  map[string]int{"batch": 0, "stopped": 0, "heartbeats": 0},
		RetryFor: pace.retryFor(), MaxPause: max(250*time.Millisecond, pace.heartbeat/2),
		Queues: pushedQueues, Pulled: pulledQueue, Away: l.away,
		Draw: load.Draw{
			After: l.after, Pause: l.offset, Hold: 3 * time.Second, Fail: 5, Attempts: 4, Gone: true,
			Expires: pace.maxDelay / 4, HotDelay: 2 * time.Second, LeaseFor: leaseFor, Overdue: 2 * time.Second,
			NackFor: pace.maxDelay / 20,
		},
	})
	return l
}

// run plays all scripts, each from its own moment on, and returns when all are over.
func (l *driver) run() {
	var wg sync.WaitGroup
	for i := range l.world.cfg.Scripts {
		rng := l.world.rng("script", i)
		at := l.moment(rng)
		wg.Go(func() {
			if l.world.sleep(at) {
				l.player.Play(l.world.ctx, i)
			}
		})
	}
	wg.Wait()
}

// moment draws when a script begins, as a time after the beginning of the load. Three scripts in five begin close to a
// strike or a mending, the others anywhere in the span.
func (l *driver) moment(rng *rand.Rand) time.Duration {
	span := l.world.cfg.Span
	if m := l.course.moments; len(m) > 0 && rng.IntN(5) < 3 {
		return min(max(m[rng.IntN(len(m))]+l.offset(rng), 0), span)
	}
	return time.Duration(rng.Int64N(int64(span)))
}

// offset draws a duration from a quarter of a random scale before to three quarters after.
func (l *driver) offset(rng *rand.Rand) time.Duration {
	scales := []time.Duration{
		10 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second,
		l.world.cfg.pace.heartbeat, 3 * l.world.cfg.pace.heartbeat,
	}
	scale := scales[rng.IntN(len(scales))]
	return time.Duration(rng.Int64N(int64(scale))) - scale/4
}

// after draws how long from now a new task is due: already due, soon, close to a strike or mending, or at any time up
// to the longest delay.
func (l *driver) after(rng *rand.Rand) time.Duration {
	switch n := rng.IntN(20); {
	case n == 0:
		return -time.Second
	case n < 6:
		return time.Duration(rng.Int64N(int64(3 * time.Second)))
	case n < 13:
		if after, ok := l.nextMoment(rng); ok {
			return after
		}
	}
	return load.Between(rng, time.Millisecond, l.world.cfg.pace.maxDelay)
}

// nextMoment picks one of the next four strikes and mendings, and returns the time until about then. It returns false
// if that time lies in the past or beyond the longest delay of a task.
func (l *driver) nextMoment(rng *rand.Rand) (time.Duration, bool) {
	now := time.Since(l.course.begin)
	i, _ := slices.BinarySearchFunc(l.course.moments, now, cmp.Compare[time.Duration])
	left := len(l.course.moments) - i
	if left == 0 {
		return 0, false
	}
	after := l.course.moments[i+rng.IntN(min(left, 4))] + l.offset(rng) - now
	return after, after > 0 && after <= l.world.cfg.pace.maxDelay
}

// remember keeps an id for the final reads.
func (l *driver) remember(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[id] {
		l.seen[id] = true
		l.ids = append(l.ids, id)
	}
}

// Try tries an operation once, through a random node. A stale read goes to the node's own replica.
func (l *driver) Try(ctx context.Context, rng *rand.Rand, op load.Operation) (history.Outcome, history.Answer) {
	switch n := l.anyNode(rng); op.What.Kind {
	case history.Get:
		return l.get(ctx, n, op.What)
	case history.Stale:
		return l.getStale(ctx, n, op.What)
	default:
		return l.call(ctx, n, l.patience(rng), op)
	}
}

// Batch tries operations in one call to a random node.
func (l *driver) Batch(ctx context.Context, rng *rand.Rand, ops []load.Operation) []history.Ending {
	return l.callAll(ctx, l.anyNode(rng), l.patience(rng), ops, true)
}

func (l *driver) call(ctx context.Context, n *Node, patience time.Duration, op load.Operation) (
	history.Outcome, history.Answer) {
	e := l.callAll(ctx, n, patience, []load.Operation{op}, false)[0]
	return e.Outcome, e.Answer
}

// callAll tries operations in one call to the node n and records each answer. The caller waits for patience at most.
func (l *driver) callAll(ctx context.Context, n *Node, patience time.Duration, ops []load.Operation, batch bool) (
	endings []history.Ending) {
	w := l.world
	numbers, cmds := make([]int, len(ops)), make([]*fsmpb.Command, len(ops))
	for i, op := range ops {
		call := op.What
		call.Node, call.Batch = n.name, batch
		numbers[i] = w.rec.Begin(call)
		l.remember(call.ID)
		cmds[i] = l.command(op)
	}
	for i, reply := range l.send(ctx, n, patience, cmds) {
		outcome, answer := l.checkedAnswer(ops[i].What.Op, reply)
		w.rec.End(numbers[i], outcome, answer)
		endings = append(endings, history.Ending{Outcome: outcome, Answer: answer})
	}
	return endings
}

// send sends commands to the node n, whose caller waits for patience at most.
func (l *driver) send(ctx context.Context, n *Node, patience time.Duration, cmds []*fsmpb.Command) []task.Reply {
	receive := func(ctx context.Context, p *process) ([]task.Reply, error) { return p.receive(ctx, cmds), nil }
	replies, err := ask(ctx, n, patience, l.world.cfg.pace.callTimeout(), receive)
	if err != nil {
		return calls.Refuse(len(cmds), err)
	}
	return replies
}

// checkedAnswer converts the reply to an operation to the outcome and the answer that the record keeps. A refused key
// is a problem of the run.
func (l *driver) checkedAnswer(op int64, reply task.Reply) (history.Outcome, history.Answer) {
	outcome, answer := answerTo(reply)
	if answer.Status == http.StatusUnprocessableEntity {
		l.world.problem("operation %d: its key was another call's", op)
	}
	return outcome, answer
}

// ask runs do on a node on behalf of a caller outside the cluster. The caller waits for patience at most, and the node
// works on the call for limit at most. An error is that of do, or of a call without an answer.
func ask[T any](
	ctx context.Context, n *Node, patience, limit time.Duration, do func(context.Context, *process) (T, error),
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	p := n.running()
	if p == nil {
		return none, task.ErrNotProposed // connection refused
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		if !p.host.Gate() {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		value, err := do(ctx, p)
		if p.host.Gate() {
			answers <- answer{value, err}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return none, task.ErrUnknown
	case <-p.host.Life().Done():
		return none, task.ErrUnknown
	}
}

func (l *driver) anyNode(rng *rand.Rand) *Node { return l.world.nodes[rng.IntN(len(l.world.nodes))] }

// patience draws how long a caller waits: mostly a second longer than a node works on a call. In one case of 15 the
// wait is so short that the caller misses the answer of a call that happens.
func (l *driver) patience(rng *rand.Rand) time.Duration {
	if rng.IntN(15) == 0 {
		return time.Millisecond + time.Duration(rng.Int64N(int64(15*time.Millisecond)))
	}
	return l.world.cfg.pace.callTimeout() + time.Second
}

// get reads a task through a node's router, linearizably.
func (l *driver) get(ctx context.Context, n *Node, call history.Call) (history.Outcome, history.Answer) {
	return l.read(ctx, n, call, func(ctx context.Context, p *process) (*fsmpb.Task, error) {
		return p.router.Get(ctx, "", call.ID, false)
	})
}

// getStale reads a task from a node's own replica.
func (l *driver) getStale(ctx context.Context, n *Node, call history.Call) (history.Outcome, history.Answer) {
	return l.read(ctx, n, call, func(ctx context.Context, p *process) (*fsmpb.Task, error) {
		s, err := p.replicas.Find(l.world.shardOf(call.ID))
		if err != nil {
			return nil, err
		}
		return s.Get(ctx, "", call.ID, true)
	})
}

// finally marks a read as one of the last of a run.
func finally(op load.Operation) history.Call {
	op.What.Final = true
	return op.What
}

func (l *driver) read(ctx context.Context, n *Node, call history.Call,
	do func(context.Context, *process) (*fsmpb.Task, error)) (history.Outcome, history.Answer) {
	w := l.world
	call.Node = n.name
	number := w.rec.Begin(call)
	limit := w.cfg.pace.callTimeout()
	found, err := ask(ctx, n, limit+time.Second, limit, do)
	outcome, answer := history.OK, answerOf(found)
	switch {
	case err != nil:
		outcome, answer = answerToError(err)
	case found == nil:
		outcome, answer = history.Failed, history.Answer{Status: http.StatusNotFound}
	}
	w.rec.End(number, outcome, answer)
	return outcome, answer
}

// pulledQueue is the queue whose tasks consumers lease.
const pulledQueue = "jobs"

// away draws how long a consumer stays away after a call: not at all in nine cases of ten.
func (l *driver) away(rng *rand.Rand) time.Duration {
	if rng.IntN(10) > 0 {
		return 0
	}
	return load.Between(rng, time.Second, l.world.cfg.pace.maxDelay/4)
}

func leaseFor(rng *rand.Rand) time.Duration {
	const least, most = 800 * time.Millisecond, 20 * time.Second
	return load.Between(rng, least, most)
}

// Lease makes one lease call to a random node, and records the leases in its answer. ok is false if the call failed.
func (l *driver) Lease(ctx context.Context, rng *rand.Rand) (_ []load.Lease, ok bool) {
	w := l.world
	calledAt := w.rec.Now()
	request := task.LeaseRequest{
		Namespace: task.DefaultNamespace, Queue: pulledQueue, Max: 1 + rng.IntN(5), Lease: leaseFor(rng),
	}
	wait := max(20*time.Second, w.cfg.pace.heartbeat)
	patience := wait + time.Second
	if rng.IntN(20) == 0 {
		patience = time.Duration(rng.Int64N(int64(wait)))
	}
	tasks, err := ask(ctx, l.anyNode(rng), patience, wait, func(ctx context.Context, p *process) ([]*fsmpb.Task, error) {
		return p.consumers.Lease(ctx, request)
	})
	return l.leases(calledAt, tasks), err == nil
}

// leases records the tasks of one answer as arrivals, and returns them as leases.
func (l *driver) leases(calledAt history.Instant, tasks []*fsmpb.Task) []load.Lease {
	at := l.world.rec.Now()
	leases := make([]load.Lease, len(tasks))
	for i, t := range tasks {
		body := load.Decode(t.Spec.Payload)
		leases[i] = load.Lease{Arrival: history.Arrival{
			At: at, ID: t.Id, WebhookID: t.WebhookId, Attempt: int(t.Attempts), Fence: t.Fence, Due: instant(t.FireAtMs),
			Scheduled: scheduledAt(t),
			Body:      history.Fingerprint(t.Spec.Payload), Wrote: body.Op,
			Pulled: true, Shard: t.Shard, Asked: calledAt, LeaseEnds: instant(t.LeaseEndMs),
		}, Payload: body, Occurrence: t.Occurrence}
		l.world.rec.Arrive(leases[i].Arrival)
	}
	return leases
}
