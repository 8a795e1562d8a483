package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// caller makes and records single requests.
type caller struct {
	rec     *history.Recorder
	nodes   []Node
	clients []*client.Client
	space   string // namespace of all calls; empty: the default one
	run     string // part of every key, so that two runs on one cluster share no key

	target                        string // of pushed tasks
	queue, bulkPushed, bulkPulled string
}

func newCaller(cfg Config) (*caller, error) {
	c := &caller{
		rec: cfg.Recorder, nodes: cfg.Nodes, space: cfg.Namespace, run: strconv.FormatInt(int64(cfg.Recorder.Now()), 36),
		target: cfg.Target, queue: cfg.scriptQueue(), bulkPushed: cfg.pushQueue(), bulkPulled: cfg.pullQueue(),
	}
	transport := &http.Transport{DialContext: cfg.Dial, MaxIdleConnsPerHost: 128, IdleConnTimeout: 30 * time.Second}
	for _, n := range cfg.Nodes {
		one, err := client.New(client.Config{
			Addrs: []string{n.URL}, KeyFile: n.KeyFile, Namespace: cfg.Namespace, MaxAttempts: 1,
			HTTPClient: &http.Client{Transport: transport},
			Timeout:    time.Hour, AttemptTimeout: time.Hour, // the caller's context sets the timeout
			FixedAddrs: true, SingleCalls: true, // one request to this node alone, which countSends can follow
		})
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, one)
	}
	return c, nil
}

func (c *caller) key(op int64) string { return fmt.Sprintf("%s-%d", c.run, op) }

// call makes one request and records it.
func (c *caller) call(
	ctx context.Context, node int, timeout time.Duration, op load.Operation,
) (history.Outcome, history.Answer) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx, sent := countSends(ctx)
	call := op.What
	call.Node, call.Namespace = c.nodes[node].Name, c.space
	n := c.rec.Begin(call)
	answer, err := c.send(ctx, c.clients[node], op)
	outcome := judge(&answer, err, int(sent.Load()))
	c.rec.End(n, outcome, answer)
	return outcome, answer
}

// countSends returns a context that counts how often a request goes out. The count can exceed one although the client
// makes one attempt: net/http sends a request with an idempotency key again when a kept connection breaks under it.
func countSends(ctx context.Context) (context.Context, *atomic.Int32) {
	sent := new(atomic.Int32)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }}), sent
}

// judge returns the outcome of a request that went out sent times and ended with err, and completes its answer. Only a
// certain failure is Failed. A refusal may be about the second sending and say nothing about the first, unless it is
// final: a call that had happened would be known by its key, and would not get a final refusal.
func judge(a *history.Answer, err error, sent int) history.Outcome {
	a.Resent = sent > 1
	switch {
	case err == nil && a.Replaced && sent > 1:
		return history.Unknown // an earlier sending may have settled the lease
	case err == nil && a.Replaced:
		return history.Failed
	case err == nil:
		return history.OK
	}
	var refusal *client.Error
	if errors.As(err, &refusal) {
		a.Status, a.State, a.Attempts = refusal.Status, string(refusal.State), refusal.Attempts
	}
	a.Error = shorten(err.Error())
	switch {
	case errors.Is(err, client.ErrUnknown):
		return history.Unknown
	case a.Status == 0 && sent > 0, sent > 1 && !load.Final(history.Failed, *a):
		a.Misjudged = true
		return history.Unknown
	}
	return history.Failed
}

func shorten(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// maxPause is the longest pause between two tries.
const maxPause = 250 * time.Millisecond

// driver makes the calls of scripts and consumers. It is a load.Driver.
type driver struct{ *Load }

// Try tries an operation once, through a random node.
func (d driver) Try(ctx context.Context, rng *rand.Rand, op load.Operation) (history.Outcome, history.Answer) {
	return d.caller.call(ctx, d.anyNode(rng), d.timeout(rng), op)
}

// Batch tries operations in one request to a random node.
func (d driver) Batch(ctx context.Context, rng *rand.Rand, ops []load.Operation) []history.Ending {
	return d.caller.batch(ctx, d.anyNode(rng), d.timeout(rng), ops)
}

// Lease makes one lease call to a random node. The result is false if the call failed.
func (d driver) Lease(ctx context.Context, rng *rand.Rand) ([]load.Lease, bool) {
	return d.lease(ctx, rng, d.cfg.scriptQueue(), d.demand(rng))
}

func (l *Load) anyNode(rng *rand.Rand) int {
	nodes := l.present()
	return nodes[rng.IntN(len(nodes))]
}

func (l *Load) present() []int { return present(l.cfg.Nodes, l.cfg.Spare) }

// present returns the nodes that are in the cluster, by their place among all.
func present(all []Node, spare func() []string) (nodes []int) {
	var away []string
	if spare != nil {
		away = spare()
	}
	for i, n := range all {
		if !slices.Contains(away, n.Name) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// timeout draws the timeout of a request: callTimeout mostly. One request in 20 gets so little time that the
// caller misses the answer of a call that happens.
func (l *Load) timeout(rng *rand.Rand) time.Duration {
	if rng.IntN(20) == 0 {
		return time.Millisecond + time.Duration(rng.Int64N(int64(10*time.Millisecond)))
	}
	return callTimeout
}

// The backoffs keep retries within a short run, also after a receiver was hostile for long.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// send makes one request of an operation and returns the answer of the node.
func (c *caller) send(ctx context.Context, to *client.Client, op load.Operation) (history.Answer, error) {
	id, key := op.What.ID, client.WithKey(c.key(op.What.Op))
	var kept client.Task
	var err error
	switch op.What.Kind {
	case history.Schedule:
		_, err = to.Schedule(ctx, c.task(op), append(conditions(op.Task), key, client.ReturnTask(&kept))...)
	case history.Touch:
		_, err = to.Touch(ctx, id, c.touch(op), key, client.ReturnTask(&kept))
	case history.Fire:
		_, err = to.FireNow(ctx, id, key, client.ReturnTask(&kept))
	case history.Cancel:
		outcome, err := to.Cancel(ctx, id, key, client.ReturnTask(&kept))
		return history.Answer{Cancel: string(outcome), Revision: kept.Revision}, err
	case history.Patch:
		return answerOf(to.Patch(ctx, id, client.Patch{Delay: op.Delay, Payload: op.Body}, key))
	case history.Get:
		return answerOf(to.Get(ctx, id))
	case history.Stale:
		return answerOf(to.GetStale(ctx, id))
	default:
		settled := to.Settle(ctx, c.queue, settlementOf(op))[0]
		return history.Answer{Status: settled.Status, Replaced: settled.Replaced}, settled.Err
	}
	return answerOf(&kept, err)
}

// line returns the line of a batch for an operation. It panics on a kind that cannot be a line.
func (c *caller) line(op load.Operation) client.Op {
	id, key := op.What.ID, client.WithKey(c.key(op.What.Op))
	switch op.What.Kind {
	case history.Schedule:
		return client.ScheduleOp(c.task(op), append(conditions(op.Task), key)...)
	case history.Touch:
		return client.TouchOp(id, c.touch(op), key)
	case history.Fire:
		return client.FireOp(id, key)
	case history.Cancel:
		return client.CancelOp(id, key)
	default:
		panic(fmt.Sprintf("%s in a batch", op.What.Kind)) // no script makes such a line
	}
}

// task returns the task of a schedule, or of a touch that may make one.
func (c *caller) task(op load.Operation) client.Task {
	t := op.Task
	want := client.Task{
		ID: op.What.ID, FireAt: t.FireAt, Delay: t.Delay, Queue: t.Queue, Group: t.Group, Payload: op.Body,
		ExpiresAfter: t.Expires,
	}
	if t.Follow {
		want.OnDelivered = &client.FollowUp{Task: client.Task{
			Payload: op.FollowUp(), Target: &client.Target{URL: c.target + Path(op.What.Op)},
			Retry: &client.Retry{MaxAttempts: load.FollowUpAttempts, MinBackoff: minBackoff, MaxBackoff: maxBackoff},
		}}
		want.OnDead = want.OnDelivered
	}
	if t.Queue == c.bulkPushed || t.Queue == c.bulkPulled { // bulk tasks have as few settings as possible
		return want
	}
	if IsHostile(op.What.Op) {
		want.Labels = map[string]string{"note": history.HostileText}
	}
	want.Retry = &client.Retry{MaxAttempts: t.MaxAttempts, MinBackoff: minBackoff, MaxBackoff: maxBackoff}
	if t.Queue == "" {
		want.Target = &client.Target{URL: c.target + Path(op.What.Op)}
	}
	return want
}

// hostileEvery is the number of operations of which one labels its task with history.HostileText.
const hostileEvery = 50

// IsHostile reports whether the task of operation op, if it is no bulk task, has a label with history.HostileText.
func IsHostile(op int64) bool { return op%hostileEvery == 0 }

// Paths is the number of paths below the receiver's URL to which tasks of the default queue go.
const Paths = 8

// Path returns the path below the receiver's URL to which the task of operation op goes.
func Path(op int64) string { return "/" + strconv.FormatInt(op%Paths, 10) }

func (c *caller) touch(op load.Operation) client.Touch {
	touch := client.Touch{Delay: op.Delay}
	if op.Task != nil {
		want := c.task(op)
		touch.OrSchedule = &want
	}
	return touch
}

func conditions(t *load.Task) []client.Option {
	var opts []client.Option
	if t.IfAbsent {
		opts = append(opts, client.IfAbsent())
	}
	if t.IfRevision > 0 {
		opts = append(opts, client.IfRevision(t.IfRevision))
	}
	return opts
}

// answerOf converts a task in an answer to the answer that the record keeps.
func answerOf(t *client.Task, err error) (history.Answer, error) {
	if err != nil {
		return history.Answer{}, err
	}
	return history.Answer{
		Revision: t.Revision, Shard: t.Shard, State: string(t.State), Previous: string(t.Previous),
		FireAt: history.At(t.FireAt), Attempts: t.Attempts, Body: history.Fingerprint(t.Payload),
		Wrote: load.Decode(t.Payload).Op, Cancel: string(t.Outcome),
	}, nil
}

// oneRequest is the largest number of lines that the client sends in one request.
const oneRequest = 1000

// batch sends operations through one node, some after the others, and records each line as a call. It returns an ending
// for each line that was answered, in the order of ops.
func (c *caller) batch(ctx context.Context, node int, timeout time.Duration, ops []load.Operation) []history.Ending {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	endings := make([]history.Ending, 0, len(ops))
	for part := range slices.Chunk(ops, oneRequest) {
		ended := c.request(ctx, node, part)
		endings = append(endings, ended...)
		if len(ended) < len(part) {
			break
		}
	}
	return endings
}

// request is batch for the lines of one request. Its sendings are counted, and those of another request would count for
// lines that never went out.
func (c *caller) request(ctx context.Context, node int, ops []load.Operation) []history.Ending {
	ctx, sent := countSends(ctx)
	calls := make([]history.Call, len(ops))
	for i, op := range ops {
		calls[i] = op.What
		calls[i].Batch, calls[i].Node, calls[i].Namespace = true, c.nodes[node].Name, c.space
	}
	first := c.rec.Begin(calls...)
	lines := func(yield func(client.Op) bool) {
		for _, op := range ops {
			if !yield(c.line(op)) {
				return
			}
		}
	}
	endings := make([]history.Ending, 0, len(ops))
	for r := range c.clients[node].Batch(ctx, lines) {
		a := history.Answer{Status: r.Status, Revision: r.Revision, Cancel: string(r.Outcome)}
		outcome := judge(&a, r.Err, int(sent.Load()))
		endings = append(endings, history.Ending{Outcome: outcome, Answer: a})
	}
	c.rec.EndAll(first, endings)
	return endings
}

// without returns the operations that have no ending, or an ending that is not done.
func without(ops []load.Operation, endings []history.Ending, done func(history.Outcome, history.Answer) bool) (
	left []load.Operation) {
	for i, op := range ops {
		if i >= len(endings) || !done(endings[i].Outcome, endings[i].Answer) {
			left = append(left, op)
		}
	}
	return left
}

// instantOrZero returns an instant, and 0 for the zero time.
func instantOrZero(t time.Time) history.Instant {
	if t.IsZero() {
		return 0
	}
	return history.At(t)
}

// leases records the tasks of one answer as arrivals at the same instant, and returns them as leases.
func (l *Load) leases(calledAt history.Instant, length time.Duration, given []client.Leased) []load.Lease {
	got := l.cfg.Recorder.Now()
	leases := make([]load.Lease, len(given))
	arrivals := make([]history.Arrival, len(given))
	for i := range given {
		g := &given[i]
		p := load.Decode(g.Payload)
		arrivals[i] = history.Arrival{
			At: got, ID: g.ID, Namespace: l.cfg.Namespace, WebhookID: g.WebhookID, Attempt: g.Attempt, Fence: g.Fence,
			Due: history.At(g.FireAt), Scheduled: instantOrZero(g.Scheduled),
			Body: history.Fingerprint(g.Payload), Wrote: p.Op,
			Pulled: true, Shard: g.Shard, Asked: calledAt, LeaseEnds: history.At(g.LeaseEndsAt),
			LeaseFor: length,
		}
		leases[i] = load.Lease{Arrival: arrivals[i], Payload: p, Receipt: g.Receipt}
	}
	l.cfg.Recorder.Arrive(arrivals...)
	return leases
}

// settlementOf returns the client's settlement for an operation that settles a lease.
func settlementOf(op load.Operation) client.Settlement {
	receipt := op.Lease.Receipt
	switch op.What.Kind {
	case history.Ack:
		return client.Settlement{Ack: []string{receipt}}
	case history.Release:
		return client.Settlement{Release: []string{receipt}}
	case history.Extend:
		return client.Settlement{Extend: []client.Extend{{Receipt: receipt, Lease: op.Delay}}}
	}
	nack := client.Nack{Receipt: receipt, Reason: "as the seed would have it"}
	if op.Delay > 0 {
		nack.Delay = &op.Delay
	}
	return client.Settlement{Nack: []client.Nack{nack}}
}
