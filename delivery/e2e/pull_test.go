package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
)

// pulled leases one task from a queue, and waits for it.
func pulled(t testing.TB, n node, queue string, wait, length time.Duration) job {
	t.Helper()
	jobs, err := n.lease(t.Context(), queue, 1, wait, length)
	assert.NoError(t, err, "leasing from %s", queue)
	if len(jobs) != 1 {
		t.Fatalf("leasing one task from %s within %v: %d came", queue, wait, len(jobs))
	}
	return jobs[0]
}

// nothing checks that a queue leases no task for a while.
func nothing(t testing.TB, n node, queue string, wait time.Duration) {
	t.Helper()
	jobs, err := n.lease(t.Context(), queue, 10, wait, time.Second)
	if err != nil || len(jobs) > 0 {
		t.Errorf("queue %s leased tasks and should have none: %+v, %v", queue, jobs, err)
	}
}

// settling settles one receipt and checks the answer's status.
func settling(t testing.TB, n node, queue string, ask object, want int) {
	t.Helper()
	results, err := n.settle(t.Context(), queue, ask)
	if err != nil || len(results) != 1 || results[0].Status != want {
		t.Errorf("settling %v: %+v, %v, want %d", ask, results, err, want)
	}
}

// one schedules one task without a target.
func (s *stage) one(t testing.TB, queue string, fields object) flow {
	t.Helper()
	f := s.evenly(t, queue, 1, time.Now(), 0)
	s.schedule(t, f, fields)
	return f
}

// consumersWait checks that tasks that come due while consumers wait are leased at once, each once, whichever node
// leads the shard and whichever node the consumer calls.
func consumersWait(t *testing.T, s *stage) {
	queue, n := s.name("waited for"), pick(s, 300, 20_000)
	f := s.evenly(t, queue, n, time.Now().Add(pick(s, time.Second, 20*time.Second)), pick(s, 5*time.Millisecond, 2*time.Millisecond))
	var mu sync.Mutex
	var came []receiver.Arrival
	different := make(map[string]bool)
	ctx, cancel := context.WithTimeout(t.Context(), pick(s, 40*time.Second, 5*time.Minute))
	defer cancel()
	var consumers sync.WaitGroup
	for i := range 9 {
		consumers.Go(func() {
			n := s.nodes[i%len(s.nodes)]
			for ctx.Err() == nil {
				jobs, err := n.lease(ctx, queue, 10, 5*time.Second, pick(s, 10*time.Second, time.Minute))
				at := time.Now()
				if err != nil && ctx.Err() == nil {
					t.Errorf("leasing: %v", err)
					return
				}
				mu.Lock()
				for _, j := range jobs {
					came = append(came, receiver.Arrival{TaskID: j.ID, At: at})
					different[j.ID] = true
				}
				if len(different) == len(f.due) {
					cancel()
				}
				mu.Unlock()
				if receipts := receiptsOf(jobs); len(receipts) > 0 {
					_, err := n.settle(t.Context(), queue, object{"ack": receipts})
					assert.Equal(t, err, nil, "settling")
				}
			}
		})
	}
	s.schedule(t, f, nil)
	consumers.Wait()
	acc := s.account(t, f, came)
	acc.hold(t, "tasks that consumers wait for", s.bound(time.Second, 20*time.Millisecond))
	s.awaitState(t, queue, "delivered", n, 20*time.Second)
}

func receiptsOf(jobs []job) (receipts []string) {
	for _, j := range jobs {
		receipts = append(receipts, j.Receipt)
	}
	return receipts
}

// leaseEnds checks that the end of a lease is a failed attempt, and that the task is leased again under a higher fence.
// The old receipt is worthless then; the new one settles once, however often the call is repeated.
func leaseEnds(t *testing.T, s *stage) {
	const length = time.Second
	queue := s.name("lease ends")
	s.one(t, queue, nil)
	calledAt := time.Now()
	first := pulled(t, s.nodes[0], queue, 10*time.Second, length)
	again := pulled(t, s.nodes[1], queue, 10*time.Second, time.Minute)
	if early := time.Until(calledAt.Add(length)); early > 0 {
		t.Errorf("leased again %v before the lease ended", early)
	}
	if again.ID != first.ID || again.Fence <= first.Fence || again.Attempt != 2 || again.WebhookID != first.WebhookID {
		t.Errorf("leased first as %+v, then as %+v", first, again)
	}
	for _, ask := range []object{ack(first.Receipt), nack(first.Receipt, ""), release(first.Receipt), extend(first.Receipt, length)} {
		settling(t, s.nodes[2], queue, ask, http.StatusConflict)
	}
	settling(t, s.nodes[2], queue, ack(again.Receipt), http.StatusOK)
	settling(t, s.nodes[0], queue, ack(again.Receipt), http.StatusOK)
	s.awaitState(t, queue, "delivered", 1, 5*time.Second)
}

// nacks checks that a task comes back after its nack's delay, or after its backoff without one, and that the reason
// becomes its last error.
func nacks(t *testing.T, s *stage) {
	queue := s.name("nacks")
	f := s.one(t, queue, object{"retry": object{"min_backoff": "2s", "max_backoff": "2s"}})
	first := pulled(t, s.any(), queue, 10*time.Second, time.Minute)
	nackedAt := time.Now()
	settling(t, s.any(), queue, nack(first.Receipt, "500ms"), http.StatusOK)
	j, err := s.any().get(t.Context(), f.ids()[0])
	returned := j.State == "ready" && time.Since(nackedAt) > 500*time.Millisecond // the calls took as long
	if err != nil || j.State != "retrying" && !returned || j.LastError == "" {
		t.Errorf("after a nack: %+v, %v", j, err)
	}
	second := pulled(t, s.any(), queue, 10*time.Second, time.Minute)
	if after := time.Since(nackedAt); after < 500*time.Millisecond || second.Attempt != 2 {
		t.Errorf("back %v after a nack for 500 ms, as attempt %d", after, second.Attempt)
	}
	nackedAt = time.Now()
	settling(t, s.any(), queue, nack(second.Receipt, ""), http.StatusOK)
	third := pulled(t, s.any(), queue, 10*time.Second, time.Minute)
	if after := time.Since(nackedAt); after < time.Second || third.Attempt != 3 { // backoff 2 s, less up to half at random
		t.Errorf("back %v after a nack with a backoff of 2 s, as attempt %d", after, third.Attempt)
	}
	settling(t, s.any(), queue, nack(second.Receipt, ""), http.StatusConflict)
	settling(t, s.any(), queue, ack(third.Receipt), http.StatusOK)
}

// extensions checks that an extension keeps a lease beyond its requested length.
func extensions(t *testing.T, s *stage) {
	queue := s.name("extensions")
	s.one(t, queue, nil)
	first := pulled(t, s.any(), queue, 10*time.Second, 4*time.Second)
	settling(t, s.any(), queue, extend(first.Receipt, 20*time.Second), http.StatusOK)
	nothing(t, s.any(), queue, 5*time.Second)
	settling(t, s.any(), queue, ack(first.Receipt), http.StatusOK)
}

// releases checks that a released task goes to the next consumer as if it had never been leased.
func releases(t *testing.T, s *stage) {
	queue := s.name("releases")
	s.one(t, queue, object{"retry": object{"max_attempts": 1}})
	fence := uint64(0)
	for range 3 {
		j := pulled(t, s.any(), queue, 10*time.Second, time.Minute)
		if j.Attempt != 1 || j.Fence <= fence {
			t.Errorf("after a release: attempt %d, fence %d, before that fence %d", j.Attempt, j.Fence, fence)
		}
		fence = j.Fence
		settling(t, s.any(), queue, release(j.Receipt), http.StatusOK)
	}
	last := pulled(t, s.any(), queue, 10*time.Second, time.Minute)
	settling(t, s.any(), queue, ack(last.Receipt), http.StatusOK)
}

// orderOfDue checks that waiting tasks are leased by due time, shard by shard, to consumers that call in turn through
// one node. The order is not strict, and less so through several nodes: a node keeps tasks that it does not need for
// some milliseconds before they go back to the head of their lane, and later tasks may overtake them then.
func orderOfDue(t *testing.T, s *stage) {
	queue := s.name("order")
	f := s.evenly(t, queue, 240, time.Now().Add(2*time.Second), time.Millisecond)
	backwards := flow{queue: queue, due: map[string]time.Time{}} // not by id or scheduling time
	ids := f.ids()
	for i, id := range ids {
		backwards.due[id] = f.due[ids[len(ids)-1-i]]
	}
	s.schedule(t, backwards, nil)
	s.awaitState(t, queue, "ready", len(ids), 20*time.Second)
	var given []job
	n := s.any()
	for len(given) < len(ids) {
		jobs, err := n.lease(t.Context(), queue, 7, time.Second, time.Minute)
		if err != nil || len(jobs) == 0 || len(jobs) > 7 {
			t.Fatalf("after %d tasks of %d: %d, %v", len(given), len(ids), len(jobs), err)
		}
		slices.SortStableFunc(jobs, func(a, b job) int { return a.FireAt.Compare(b.FireAt) }) // one answer has no order
		given = append(given, jobs...)
	}
	nothing(t, s.any(), queue, 100*time.Millisecond)
	late := overtaken(given)
	t.Logf("%d of %d tasks came after a task of their shard that was due later", late, len(given))
	if late > len(given)/20 {
		t.Error("the tasks are out of order")
	}
}

// overtaken counts the tasks that come after a task of the same shard that was due later.
func overtaken(given []job) (n int) {
	last := map[uint32]time.Time{}
	for _, j := range given {
		if j.FireAt.Before(last[j.Shard]) {
			n++
			continue
		}
		last[j.Shard] = j.FireAt
	}
	return n
}

func TestOvertaken(t *testing.T) {
	due := func(shard uint32, ms ...int64) (jobs []job) {
		for _, m := range ms {
			jobs = append(jobs, job{Shard: shard, FireAt: time.UnixMilli(m)})
		}
		return jobs
	}
	tests := map[string]struct {
		given []job
		n     int
	}{
		"in order":       {due(1, 1, 2, 2, 3), 0},
		"one is late":    {due(1, 1, 4, 2, 5), 1},
		"backwards":      {due(1, 4, 3, 2, 1), 3},
		"shards between": {append(due(1, 5, 6), due(2, 1, 2)...), 0},
	}
	for name, tt := range tests {
		if n := overtaken(tt.given); n != tt.n {
			t.Errorf("%s: %d, not %d", name, n, tt.n)
		}
	}
}

// leaseOutlivesLeader kills the leader of a shard after it has leased two tasks. The receipt of the first settles
// afterwards through another node, and no other consumer had the task meanwhile. The lease of the second ends in its
// time, and the task is leased again.
func leaseOutlivesLeader(t *testing.T, s *stage) {
	const length = 4 * time.Second
	queue := s.name("outlives")
	f := s.evenly(t, queue, 60, time.Now(), 0)
	s.schedule(t, f, nil)
	s.awaitState(t, queue, "ready", len(f.due), 20*time.Second)
	calledAt := time.Now()
	kept, left := pair(t, s, queue, len(f.due), length)
	dead := s.leader(t, kept.Shard)
	s.kill(t, dead)
	rest := s.others(dead)
	nothing(t, rest[0], queue, time.Until(calledAt.Add(length))-500*time.Millisecond)
	await(t, 20*time.Second, "a settle without the old leader", func() (bool, string) {
		results, err := rest[1].settle(t.Context(), queue, ack(kept.Receipt))
		return err == nil && results[0].Status == http.StatusOK, fmt.Sprint(results, err)
	})
	if j, err := rest[0].get(t.Context(), kept.ID); err != nil || j.State != "delivered" || j.Attempts != 1 {
		t.Errorf("after its ack: %+v, %v", j, err)
	}
	again := pulled(t, rest[0], queue, 20*time.Second, time.Minute)
	if early := time.Until(calledAt.Add(length)); early > 0 {
		t.Errorf("leased again %v before its lease ended", early)
	}
	if again.ID != left.ID || again.Fence <= left.Fence {
		t.Errorf("leased first as %+v, then as %+v", left, again)
	}
	settling(t, rest[1], queue, ack(left.Receipt), http.StatusConflict)
	settling(t, rest[1], queue, ack(again.Receipt), http.StatusOK)
	nothing(t, rest[0], queue, 500*time.Millisecond)
	s.restart(t, dead)
	s.awaitLeaders(t)
}

// pair leases all tasks of a queue, keeps two of one shard, and acks the others.
func pair(t testing.TB, s *stage, queue string, n int, length time.Duration) (a, b job) {
	t.Helper()
	var all []job
	for len(all) < n {
		jobs, err := s.any().lease(t.Context(), queue, n, 5*time.Second, length)
		if err != nil || len(jobs) == 0 {
			t.Fatalf("%d of %d leased: %v", len(all), n, err)
		}
		all = append(all, jobs...)
	}
	a = all[0]
	i := 1 + slices.IndexFunc(all[1:], func(j job) bool { return j.Shard == a.Shard })
	if i == 0 {
		t.Fatal("all tasks are of different shards")
	}
	b = all[i]
	others := slices.DeleteFunc(receiptsOf(all), func(r string) bool { return r == a.Receipt || r == b.Receipt })
	_, err := s.any().settle(t.Context(), queue, object{"ack": others})
	assert.NoError(t, err)
	return a, b
}

// crowdWithDeath runs many consumers that come and go, thousands of tasks, and the death of a leader in the
// middle. At the end every task is acked or dead, none is lost, and none ever had two live leases.
func crowdWithDeath(t *testing.T, s *stage) {
	const maxAttempts = 4
	queue, n := s.name("crowd"), fewer(s, pick(s, 3000, 50_000), 5)
	over := pick(s, 4*time.Second, 60*time.Second)
	f := s.evenly(t, queue, n, time.Now().Add(pick(s, time.Second, 20*time.Second)), over/time.Duration(n))
	s.schedule(t, f, object{"retry": object{"max_attempts": maxAttempts, "min_backoff": "1s", "max_backoff": "1s"}})

	ctx, home := context.WithTimeout(t.Context(), pick(s, 60*time.Second, 5*time.Minute))
	defer home()
	gathered := make(chan *crowd, 1)
	go func() { gathered <- s.gather(ctx, t, queue, fewer(s, 100, 2), 1) }()
	until(t, f.due[f.ids()[n/2]])
	dead := s.leader(t, 1)
	s.kill(t, dead)
	until(t, time.Now().Add(pick(s, 2*time.Second, 10*time.Second)))
	s.restart(t, dead)
	var ended map[string]job
	await(t, pick(s, 50*time.Second, 4*time.Minute), "every task acked or dead", func() (bool, string) {
		var open int
		ended, open = s.ends(t, f)
		return open == 0, fmt.Sprintf("%d open", open)
	})
	home()
	c := <-gathered
	given := c.given()
	t.Logf("%d leases, calls that failed: %v, ends: %v", len(given), c.failed, s.states(t, queue))
	report(t, "a crowd of consumers", judgeLeases(given, ended, maxAttempts))
	if len(given) < n {
		t.Errorf("%d leases of %d tasks", len(given), n)
	}
	acc := s.account(t, f, firstLeases(given))
	acc.hold(t, "a crowd of consumers, first leases", whenever)
}

// ends returns the tasks of a flow as they are now, and the number of those that have not ended.
func (s *stage) ends(t testing.TB, f flow) (ended map[string]job, open int) {
	t.Helper()
	ended = make(map[string]job, len(f.due))
	for id := range f.due {
		ended[id] = job{}
	}
	for _, j := range s.all(t, f.queue) {
		ended[j.ID] = j
	}
	for _, j := range ended {
		if j.State != "delivered" && j.State != "dead" && j.State != "" {
			open++
		}
	}
	return ended, open
}

// firstLeases returns the first lease of each task as an arrival.
func firstLeases(given []leased) []receiver.Arrival {
	first := map[string]time.Time{}
	for _, l := range given {
		if at, ok := first[l.id]; !ok || l.got.Before(at) {
			first[l.id] = l.got
		}
	}
	var arrivals []receiver.Arrival
	for id, at := range first {
		arrivals = append(arrivals, receiver.Arrival{TaskID: id, At: at})
	}
	return arrivals
}
