package e2e_test

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/deploy/receiver"
)

// weatherStorm makes very many tasks due in one second, for a receiver that works on 50 at once for 5 ms each. The
// tasks drain at the receiver's pace, each once, with the nodes' memory bounded, and another queue's tasks stay
// punctual.
func weatherStorm(t *testing.T, s *stage) {
	n := fewer(s, pick(s, 10_000, 500_000), 5)
	slow := s.newSink(t)
	slow.slim, slow.room = true, make(chan struct{}, 50)
	slow.reply(func(receiver.Arrival) reply { return reply{hold: 5 * time.Millisecond} })
	punctual := s.newSink(t)
	monitor := watchVitals(s.processes)

	at := time.Now().Add(pick(s, 4*time.Second, 90*time.Second))
	storm := s.evenly(t, s.name("storm"), n, at, time.Second/time.Duration(n))
	every := pick(s, 8*time.Millisecond, 4*time.Millisecond)
	beside := s.evenly(t, s.name("beside the storm"), pick(s, 500, 20_000), at.Add(-time.Second), every)
	s.schedule(t, beside, object{"target": targetOf(punctual.url, 5*time.Second)})
	s.schedule(t, storm, object{"target": targetOf(slow.url, 30*time.Second)})
	scheduledBefore(t, at.Add(-time.Second))

	awaitTaken(t, slow, n, pick(s, 60*time.Second, 10*time.Minute))
	acc := s.account(t, storm, slow.came())
	acc.hold(t, "the storm", whenever)
	t.Logf("drained at %.0f a second", float64(n)/time.Since(at).Seconds())
	awaitTaken(t, punctual, len(beside.due), time.Minute)
	acc = s.account(t, beside, punctual.came())
	acc.hold(t, "punctual tasks beside the storm", s.bound(time.Second, 20*time.Millisecond))
	monitor.hold(t, procstat.Usage{Memory: pick[int64](s, 200<<20, 1200<<20), Descriptors: pick(s, 2000, 5000)})
}

// spreadStorm schedules tasks of one instant with jitter, and checks that they are spread over the window.
func spreadStorm(t *testing.T, s *stage) {
	const parts = 10
	n, window := fewer(s, pick(s, 2_000, 60_000), 2), pick(s, 2*time.Second, 30*time.Second)
	sink := s.newSink(t)
	sink.slim = true
	at := time.Now().Add(pick(s, 2*time.Second, 30*time.Second))
	storm := s.evenly(t, s.name("spread"), n, at, 0)
	s.schedule(t, storm, object{"target": targetOf(sink.url, 30*time.Second), "jitter": window.String()})

	awaitTaken(t, sink, n, pick(s, 30*time.Second, 3*time.Minute))
	kept := flow{storm.queue, map[string]time.Time{}, storm.terms} // by the due instants that the receiver got
	for _, a := range sink.came() {
		kept.due[a.TaskID] = a.Due
	}
	acc := s.account(t, kept, sink.came())
	acc.hold(t, "tasks with jitter", s.bound(time.Second, 100*time.Millisecond))
	report(t, "tasks with jitter", unevenness(storm.due, kept.due, window, parts))
}
