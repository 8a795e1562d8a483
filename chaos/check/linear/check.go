package linear

import (
	"context"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
)

// Limits bound a check. A zero field stands for its default.
type Limits struct {
	Timeout time.Duration // longest search for one id; default one minute
	Skew    time.Duration // offset of undisturbed nodes' clocks from the history's; default 20 ms
}

func (l Limits) withDefaults() Limits {
	if l.Timeout == 0 {
		l.Timeout = time.Minute
	}
	if l.Skew == 0 {
		l.Skew = 20 * time.Millisecond
	}
	return l
}

// Result is the result of a check.
type Result struct {
	Finding   check.Finding
	IDs       int
	Calls     int // calls that have a place in the order
	Grants    int // grants that arrived, and so have a place in the order
	Open      int // calls of unknown outcome
	Undecided int // ids whose search ran out of time, which is a breach

	failures []*failure
}

// Check judges whether the calls about each id of the history are linearizable. It searches the ids in parallel.
func Check(h *history.History, limits Limits) Result {
	limits = limits.withDefaults()
	lives := livesOf(h)
	found := judgeAll(lives, limits, h.Faults)
	r := Result{IDs: len(lives), Finding: check.Finding{Invariant: "8", Promise: "calls about one id are linearizable"}}
	longest, several, overlapping := time.Duration(0), 0, 0
	for i := range found {
		v := &found[i]
		r.Calls, r.Grants, r.Open = r.Calls+v.calls, r.Grants+v.grants, r.Open+v.open
		longest = max(longest, v.took)
		if v.calls+v.grants > 1 {
			several++
		}
		if v.overlaps {
			overlapping++
		}
		if v.result != porcupine.Ok {
			r.fail(v.explain(limits.Timeout, len(r.failures) < explained), v.result)
		}
	}
	r.Finding.Observe(several, "ids with several calls or grants in order")
	r.Finding.Observe(overlapping, "ids with calls or grants that overlap")
	r.Finding.Figures = check.NewFigures("%d ids, %d calls and %d grants in order, %d calls of unknown outcome; "+
		"%d ids not linearizable, %d not decided in time; one took %v at most",
		r.IDs, r.Calls, r.Grants, r.Open, len(r.failures)-r.Undecided, r.Undecided, longest)
	return r
}

func (r *Result) fail(f *failure, result porcupine.CheckResult) {
	if result == porcupine.Unknown {
		r.Undecided++
	}
	r.failures = append(r.failures, f)
	r.Finding.Breaches = append(r.Finding.Breaches, f.breach)
}

// livesOf sorts a history by id, in the order of the ids' first calls, then of their first arrivals.
func livesOf(h *history.History) []*life {
	byID := map[string]*life{}
	var all []*life
	lifeOf := func(id string) *life {
		l := byID[id]
		if l == nil {
			l = &life{id: id}
			byID[id] = l
			all = append(all, l)
		}
		return l
	}
	for i := range h.Calls {
		l := lifeOf(h.Calls[i].ID)
		l.calls = append(l.calls, &h.Calls[i])
	}
	for i := range h.Arrivals {
		l := lifeOf(h.Arrivals[i].ID)
		l.arrivals = append(l.arrivals, &h.Arrivals[i])
	}
	return all
}

// judgement is the result for one id.
type judgement struct {
	life      *life
	partition *partition // nil if it passed
	result    porcupine.CheckResult
	took      time.Duration

	calls, grants, open int
	overlaps            bool // some calls or grants were under way at once
}

func judgeAll(lives []*life, limits Limits, faults []history.Fault) []judgement {
	all := make([]judgement, len(lives))
	c := clocks{moved: check.NewClocks(faults), apart: limits.Skew}
	turns := make(chan int)
	var judges sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		judges.Go(func() {
			for i := range turns {
				all[i] = judge(lives[i], c, limits.Timeout)
			}
		})
	}
	for i := range lives {
		turns <- i
	}
	close(turns)
	judges.Wait()
	return all
}

// judge searches for an order of the steps of one id. It tries each effort in turn, since little effort mostly finds an
// order soon. Only the thorough search can prove that there is none.
func judge(l *life, c clocks, timeout time.Duration) judgement {
	began := time.Now()
	p := newPartition(l, c)
	v := judgement{life: l, partition: p}
	v.calls, v.grants, v.open = p.count()
	ops, all := p.operations(), efforts()
	v.overlaps = slices.ContainsFunc(ops, func(o porcupine.Operation) bool { return o.ClientId > 0 })
	for i, e := range all {
		left := timeout - time.Since(began)
		if i < len(all)-1 {
			left /= 4
		}
		v.result = porcupine.CheckOperationsTimeout(p.model(e), ops, max(left, 1))
		if v.result == porcupine.Ok {
			v.partition = nil
			break
		}
		if v.result == porcupine.Illegal && len(p.events) == 0 {
			break
		}
	}
	v.took = time.Since(began)
	return v
}

// count returns the numbers of calls and grants that have a place in the order, and of calls that may have one.
func (p *partition) count() (calls, grants, open int) {
	for _, x := range p.steps {
		if x.grant != nil {
			grants++
		} else {
			calls++
		}
	}
	for _, e := range p.events {
		open += len(e.starts)
	}
	return calls, grants, open
}

// model returns the partition's model for porcupine.
func (p *partition) model(e effort) porcupine.Model {
	seed := maphash.MakeSeed()
	take := func(ctx context.Context, from, what, _ any) (bool, any) {
		before, x := from.(*set), what.(*step)
		states := p.take(ctx, before, x, e)
		return len(states) > 0, newSet(max(before.number, x.number), states, seed)
	}
	return porcupine.Model{
		Init:        func() any { return start(seed) },
		StepContext: take,
		Step:        func(from, x, _ any) (bool, any) { return take(context.Background(), from, x, nil) },
		Equal:       func(a, b any) bool { return a.(*set).equal(b.(*set)) },
		Hash:        func(a any) uint64 { return a.(*set).sum },

		DescribeOperation: func(x, _ any) string { return x.(*step).String() },
		DescribeState:     func(s any) string { return p.describe(s.(*set)) },
	}
}

// operations returns the steps as porcupine's operations. Each gets a row (ClientId) in which no other step overlaps
// it.
func (p *partition) operations() []porcupine.Operation {
	ops := make([]porcupine.Operation, len(p.steps))
	var free []history.Instant // end of each row's last step
	for i, x := range p.steps {
		row := slices.IndexFunc(free, func(end history.Instant) bool { return end < x.start })
		if row < 0 {
			row = len(free)
			free = append(free, 0)
		}
		free[row] = x.end
		ops[i] = porcupine.Operation{ClientId: row, Input: x, Call: int64(x.start), Return: int64(x.end)}
	}
	return ops
}

// clocks holds how far nodes' clocks may have been from the history's clock: always by apart, and by the offsets that
// faults caused.
type clocks struct {
	moved check.Clocks
	apart time.Duration
}

// earliest returns the first instant at which a node's clock may have shown a time.
func (c clocks) earliest(reading history.Instant) history.Instant {
	return c.moved.Earliest(reading.Add(-c.apart))
}

// off returns how far a moved clock may have been behind or ahead at most between two instants.
func (c clocks) off(from, to history.Instant) (behind, ahead time.Duration) {
	return c.moved.Off(from, to)
}
