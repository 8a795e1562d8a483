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
		target: cfg.Target, queue: cfg.Queue, bulkPushed: cfg.pushQueue(), bulkPulled: cfg.pullQueue(),
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
	what := op.What
	what.Node, what.Namespace = c.nodes[node].Name, c.space
	n := c.rec.Begin(what)
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
	return d.lease(ctx, rng, d.cfg.Queue, d.demand(rng))
}

func (l *Load) anyNode(rng *rand.Rand) int {
	nodes := l.present()
	return nodes[rng.IntN(len(nodes))]
}

// present returns the nodes that are in the cluster, by their place among all.
func (l *Load) present() []int {
	var spare []string
	if l.cfg.Spare != nil {
		spare = l.cfg.Spare()
	}
	var nodes []int
	for i, n := range l.cfg.Nodes {
		if !slices.Contains(spare, n.Name) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// timeout draws the timeout of a request: Config.CallTimeout mostly. One request in 20 gets so little time that the
// caller misses the answer of a call that happens.
func (l *Load) timeout(rng *rand.Rand) time.Duration {
	if rng.IntN(20) == 0 {
		return time.Millisecond + time.Duration(rng.Int64N(int64(10*time.Millisecond)))
	}
	return l.cfg.CallTimeout
}
