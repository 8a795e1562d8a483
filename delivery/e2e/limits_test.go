package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// inForce is the promised time from the answer to a call that sets a policy until the policy holds everywhere.
const inForce = time.Second

// inFlight checks that no more attempts than the limit run at once over all shards and nodes, even if the limit is
// smaller than their number, and that the limit is used.
func inFlight(t *testing.T, s *stage, limit, n int) {
	sink := s.newSink(t)
	sink.reply(func(receiver.Arrival) reply { return reply{hold: 20 * time.Millisecond} })
	queue := s.name("in flight")
	s.putQueue(t, s.any(), queue, object{"target": targetOf(sink.url, 10*time.Second), "max_in_flight": limit})
	f := s.evenly(t, queue, n, time.Now().Add(time.Second), 0)
	s.schedule(t, f, nil)
	awaitTaken(t, sink, n, pick(s, 40*time.Second, 5*time.Minute))
	acc := s.account(t, f, sink.came())
	acc.hold(t, fmt.Sprintf("%d in flight", limit), whenever)
	_, peak := sink.counts()
	if peak > limit && !acc.excused { // the lender of permits may have a new leader, which knows of them after a second
		t.Errorf("%d ran at once: the limit is %d", peak, limit)
	}
	if peak < (limit+1)/2 {
		t.Errorf("at most %d ran at once: the limit of %d is hardly used", peak, limit)
	}
}

// leasesInFlight checks that the limit holds for leases as for attempts.
func leasesInFlight(t *testing.T, s *stage) {
	queue := s.name("leases in flight")
	s.putQueue(t, s.any(), queue, object{"max_in_flight": 3})
	f := s.evenly(t, queue, 9, time.Now(), 0)
	s.schedule(t, f, nil)
	for range 3 {
		var held []string
		await(t, 20*time.Second, "three leases", func() (bool, string) {
			jobs, err := s.any().lease(t.Context(), queue, 10, time.Second, time.Minute)
			held = append(held, receiptsOf(jobs)...)
			return len(held) >= 3, fmt.Sprint(len(held), err)
		})
		if len(held) > 3 {
			t.Errorf("%d leases at once: the limit is 3", len(held))
		}
		nothing(t, s.any(), queue, 700*time.Millisecond)
		if _, err := s.any().settle(t.Context(), queue, object{"ack": held}); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitState(t, queue, "delivered", len(f.due), 20*time.Second)
}

// perSecond checks that tasks that are all due at once begin at the limit's pace.
func perSecond(t *testing.T, s *stage) {
	limit, n := 50, pick(s, 200, 3000)
	sink := s.newSink(t)
	queue := s.name("per second")
	s.putQueue(t, s.any(), queue, object{"target": targetOf(sink.url, 10*time.Second), "max_per_second": limit})
	f := s.evenly(t, queue, n, time.Now().Add(time.Second), 0)
	s.schedule(t, f, nil)
	awaitTaken(t, sink, n, pick(s, 20*time.Second, 3*time.Minute))
	arrivals := sink.came()
	acc := s.account(t, f, arrivals)
	acc.hold(t, "so many per second", whenever)
	most := busiest(instantsOf(arrivals), time.Second)
	if burst := max(1, limit/10); most > limit+2*burst {
		t.Errorf("%d began within a second: the limit is %d", most, limit)
	}
	fair := time.Duration(n) * time.Second / time.Duration(limit)
	if took := acc.within(1); took > fair*3/2+time.Second {
		t.Errorf("%d took %v: at %d a second it should be %v", n, took, limit, fair)
	}
}

func instantsOf(arrivals []receiver.Arrival) (all []time.Time) {
	for _, a := range arrivals {
		all = append(all, a.At)
	}
	return all
}

// pauses checks that a pause, or its end, is in force a second after its call through any node, and that no task is
// lost.
func pauses(t *testing.T, s *stage) {
	sink := s.newSink(t)
	queue := s.name("pauses")
	policy := object{"target": targetOf(sink.url, 10*time.Second)}
	s.putQueue(t, s.nodes[0], queue, policy)
	f := s.evenly(t, queue, 400, time.Now().Add(500*time.Millisecond), 10*time.Millisecond)
	s.schedule(t, f, nil)
	awaitTaken(t, sink, 10, 10*time.Second)

	s.putQueue(t, s.nodes[1], queue, object{"target": policy["target"], "paused": true})
	held := time.Now().Add(inForce)
	until(t, held.Add(time.Second))
	resumed := time.Now()
	s.putQueue(t, s.nodes[2], queue, policy)
	again := time.Now().Add(inForce)
	awaitTaken(t, sink, len(f.due), 20*time.Second)

	arrivals := sink.came()
	acc := s.account(t, f, arrivals)
	acc.hold(t, "a pause", whenever)
	during, soon := 0, false
	for _, a := range arrivals {
		if a.At.After(held) && a.At.Before(resumed) {
			during++
		}
		soon = soon || a.At.After(resumed) && a.At.Before(again)
	}
	if during > 0 {
		t.Errorf("%d arrived while the queue was paused", during)
	}
	if !soon {
		t.Errorf("nothing arrived within %v of the resumption", inForce)
	}
}

// targetChanges checks that tasks without a target of their own follow their queue's target from the next attempt on.
func targetChanges(t *testing.T, s *stage) {
	before, after := s.newSink(t), s.newSink(t)
	queue := s.name("target changes")
	s.putQueue(t, s.nodes[0], queue, object{"target": targetOf(before.url, 10*time.Second)})
	f := s.evenly(t, queue, 300, time.Now().Add(500*time.Millisecond), 10*time.Millisecond)
	s.schedule(t, f, nil)
	awaitTaken(t, before, 10, 10*time.Second)
	s.putQueue(t, s.nodes[1], queue, object{"target": targetOf(after.url, 10*time.Second)})
	changed := time.Now().Add(inForce)
	awaitTaken(t, after, 100, 20*time.Second)
	s.awaitState(t, queue, "delivered", len(f.due), 20*time.Second)
	acc := s.account(t, f, append(before.came(), after.came()...))
	acc.hold(t, "a change of target", whenever)
	var wrong []string
	for _, a := range before.came() {
		if a.At.After(changed) {
			wrong = append(wrong, fmt.Sprintf("%s came to the old target %v too late", a.TaskID, a.At.Sub(changed)))
		}
	}
	report(t, "a change of target", wrong)
}

// deletions checks that a queue with tasks cannot be deleted, and that a queue without tasks can.
func deletions(t *testing.T, s *stage) {
	queue := s.name("deletions")
	s.putQueue(t, s.nodes[0], queue, object{"paused": true})
	s.one(t, queue, nil)
	refused := func(n node, want int) {
		t.Helper()
		status, err := n.call(t.Context(), http.MethodDelete, queuePath(queue), nil, nil)
		var r *refusal
		if !errors.As(err, &r) || r.Status != want {
			t.Errorf("deleting a queue: %d, %v, want %d", status, err, want)
		}
	}
	for _, n := range s.nodes {
		refused(n, http.StatusConflict)
	}
	empty := s.name("empty")
	s.putQueue(t, s.nodes[1], empty, object{"paused": true})
	if status, err := s.nodes[2].call(t.Context(), http.MethodDelete, queuePath(empty), nil, nil); err != nil {
		t.Errorf("deleting an empty queue: %d, %v", status, err)
	}
	queue = empty
	for _, n := range s.nodes {
		if status, err := n.call(t.Context(), http.MethodGet, queuePath(empty), nil, nil); status != http.StatusNotFound {
			t.Errorf("reading a deleted queue: %d, %v", status, err)
		}
	}
	refused(s.nodes[0], http.StatusNotFound)
}

// tallies checks that a queue's counts match the states of its tasks.
func tallies(t *testing.T, s *stage) {
	queue := s.name("tallies")
	now := time.Now()
	soon := s.evenly(t, queue, 30, now.Add(20*time.Second), time.Millisecond)
	s.schedule(t, soon, nil)
	later := s.evenly(t, queue+"-later", 20, now.Add(30*time.Minute), time.Millisecond)
	later.queue = queue
	s.schedule(t, later, nil)
	due := s.evenly(t, queue+"-due", 10, now, time.Millisecond)
	due.queue = queue
	s.schedule(t, due, nil)
	await(t, 10*time.Second, "ten due tasks", func() (bool, string) {
		count := s.states(t, queue)
		return count["ready"] == 10, fmt.Sprint(count)
	})
	jobs, err := s.any().lease(t.Context(), queue, 1, time.Second, time.Minute)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d leased: %v", len(jobs), err)
	}
	settling(t, s.any(), queue, ack(jobs[0].Receipt), http.StatusOK)
	pulled(t, s.any(), queue, time.Second, time.Minute)
	want := map[string]any{
		"scheduled": 50.0, "ready": 8.0, "leased": 1.0, "delivered": 1.0, "dead": 0.0, "retrying": 0.0,
		"due_1m": 30.0, "due_1h": 50.0, "due_1d": 50.0,
	}
	for _, n := range s.nodes {
		await(t, 5*time.Second, "the counts", func() (bool, string) {
			var answer struct {
				Counts map[string]any `json:"counts"`
			}
			_, err := n.call(t.Context(), http.MethodGet, queuePath(queue), nil, &answer)
			same := err == nil
			for name, value := range want {
				same = same && answer.Counts[name] == value
			}
			return same, fmt.Sprint(answer.Counts, err)
		})
	}
}
