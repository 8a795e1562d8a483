package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/loop"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	finalPoll    = 500 * time.Millisecond
	finalTimeout = 10 * time.Second // of one read
	finalPage    = 1000
	readers      = 16
)

// Drain waits until every task of the load has come to rest, or until the context ends. A task at rest is finished,
// absent, or due later than soon from now.
func (l *Load) Drain(ctx context.Context, soon time.Duration) {
	for i := 0; ; i++ {
		nodes := l.present()
		if !l.isBusy(ctx, nodes[i%len(nodes)], soon) || !wait.For(ctx, finalPoll) {
			return
		}
	}
}

// isBusy asks one node whether a task of the load has not come to rest. It returns true if the node does not answer.
func (l *Load) isBusy(ctx context.Context, node int, soon time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, finalTimeout)
	defer cancel()
	for page, err := range l.caller.clients[node].Pages(ctx, client.Filter{
		States: []client.State{client.StateScheduled, client.StateReady, client.StateFiring, client.StateRetrying},
		Prefix: l.cfg.Prefix, DueBefore: l.cfg.Recorder.Now().Add(soon).Time(), PageSize: finalPage,
	}) {
		if err != nil || len(page) > 0 {
			return true
		}
	}
	return false
}

// ReadAll ends a run, when the cluster is whole and at rest. It reads each id once, linearizably, and then up to
// sample of these ids stale, through every node. It reads all ids whose end the record does not show, and up to sample
// of the others. An error means that at least one read got no final answer.
func (l *Load) ReadAll(ctx context.Context, sample int) error {
	all := l.unexplained(sample)
	var mu sync.Mutex
	var failed error
	check := func(outcome history.Outcome, a history.Answer) {
		if load.Final(outcome, a) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		failed = fmt.Errorf("a final read failed: %s", a.Error)
	}
	l.forEach(all, func(rng *rand.Rand, id string) {
		op := l.player.Get(id)
		op.What.Final = true
		check(l.caller.call(ctx, l.anyNode(rng), finalTimeout, op))
	})
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	l.forEach(all[:min(sample, len(all))], func(_ *rand.Rand, id string) {
		for _, node := range l.present() {
			op := l.player.GetStale(id)
			op.What.Final = true
			check(l.caller.call(ctx, node, finalTimeout, op))
		}
	})
	return failed
}

// forEach calls do for all ids, several at a time, and returns when all calls have returned.
func (l *Load) forEach(ids []string, do func(rng *rand.Rand, id string)) {
	rngs := make([]*rand.Rand, readers)
	for i := range rngs {
		rngs[i] = rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
	}
	_, _ = loop.Closed(context.Background(), rngs, len(ids), loop.Forever, // do returns no error
		func(_ context.Context, rng *rand.Rand, i int) error { do(rng, ids[i]); return nil })
}

// unexplained returns the ids of the load that ReadAll reads: all whose end the record does not show, and up to sample
// of the others.
func (l *Load) unexplained(sample int) (ids []string) {
	l.cfg.Recorder.View(func(h *history.History) { ids = worthReading(h.In(l.cfg.Namespace), sample) })
	return ids
}

// worthReading returns these ids of a history, in the order of their first calls.
func worthReading(h *history.History, sample int) []string {
	lives := map[string]*life{}
	var all []string
	lifeOf := func(id string) *life {
		l := lives[id]
		if l == nil {
			l = new(life)
			lives[id] = l
			all = append(all, id)
		}
		return l
	}
	for i := range h.Calls {
		lifeOf(h.Calls[i].ID).call(&h.Calls[i])
	}
	for i := range h.Arrivals {
		lifeOf(h.Arrivals[i].ID).arrive(&h.Arrivals[i])
	}
	var worth []string
	for _, id := range all {
		if lives[id].explained() {
			if sample <= 0 {
				continue
			}
			sample--
		}
		worth = append(worth, id)
	}
	return worth
}

// life counts the calls and arrivals of a task in the record.
type life struct {
	schedules, cancels, acks, arrivals uint16
	taken                              bool // the receiver accepted an attempt
	pulled                             bool // a consumer leased the task
	more                               bool // a call happened whose effect only a read explains
}

func (l *life) call(c *history.Call) {
	switch {
	case !c.Kind.Changes():
	case c.Kind == history.Schedule && c.Outcome == history.OK:
		l.schedules++
	case c.Kind == history.Cancel && c.Outcome == history.OK && c.Answer.Cancel == "cancelled":
		l.cancels++
	case c.Kind == history.Ack && c.Outcome == history.OK:
		l.acks++
	default:
		l.more = true
	}
}

func (l *life) arrive(a *history.Arrival) {
	l.arrivals++
	l.taken = l.taken || a.Delivered()
	l.pulled = l.pulled || a.Pulled
}

// explained reports whether the record alone shows the end of a task. Such a task was scheduled once. It then either
// arrived once and was taken, or was cancelled and never arrived.
func (l *life) explained() bool {
	if l.more || l.schedules != 1 {
		return false
	}
	switch l.arrivals {
	case 0:
		return l.cancels == 1
	case 1:
		return l.cancels == 0 && (l.pulled && l.acks == 1 || l.taken && l.acks == 0)
	}
	return false
}
