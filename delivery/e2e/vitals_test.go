package e2e_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/deploy/receiver"
)

// monitor keeps the nodes' highest memory and descriptor counts.
type monitor struct {
	before, peak map[string]procstat.Usage
	stop         chan struct{}
	done         sync.WaitGroup
}

const lookEvery = 100 * time.Millisecond

// watchVitals polls every running node until hold. On systems other than Linux it sees nothing. Without processes it
// returns nil, which sees nothing either.
func watchVitals(cluster *local.Cluster) *monitor {
	if cluster == nil {
		return nil
	}
	m := &monitor{before: map[string]procstat.Usage{}, peak: map[string]procstat.Usage{}, stop: make(chan struct{})}
	m.look(cluster)
	for name, v := range m.peak {
		m.before[name] = v
	}
	m.done.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-ticker.C:
				m.look(cluster)
			}
		}
	})
	return m
}

func (m *monitor) look(cluster *local.Cluster) {
	for _, n := range cluster.Nodes() {
		if n.PID == 0 {
			continue
		}
		v, err := procstat.Of(n.PID)
		if err != nil {
			continue // it has just ended, or this system has no such data
		}
		high := m.peak[n.Name]
		m.peak[n.Name] = procstat.Usage{
			Memory: max(high.Memory, v.Memory), Descriptors: max(high.Descriptors, v.Descriptors),
		}
	}
}

// hold ends the watch, and fails the test for each node that grew by more than may.
func (m *monitor) hold(t testing.TB, may procstat.Usage) {
	t.Helper()
	if m == nil {
		return
	}
	close(m.stop)
	m.done.Wait()
	if len(m.peak) == 0 && runtime.GOOS == "linux" {
		t.Error("no node's vitals were seen")
	}
	for name, high := range m.peak {
		low := m.before[name]
		t.Logf("%s: memory %d to %d MiB, descriptors %d to %d", name,
			low.Memory>>20, high.Memory>>20, low.Descriptors, high.Descriptors)
	}
	for _, excess := range excesses(m.before, m.peak, may) {
		t.Error(excess)
	}
}

func excesses(before, peak map[string]procstat.Usage, may procstat.Usage) (found []string) {
	for name, high := range peak {
		low := before[name]
		if grown := high.Memory - low.Memory; grown > may.Memory {
			found = append(found, fmt.Sprintf("%s grew by %d MiB: allowed are %d", name, grown>>20, may.Memory>>20))
		}
		if opened := high.Descriptors - low.Descriptors; opened > may.Descriptors {
			found = append(found, fmt.Sprintf("%s opened %d descriptors: allowed are %d", name, opened, may.Descriptors))
		}
	}
	slices.Sort(found)
	return found
}

func TestExcesses(t *testing.T) {
	before, may := map[string]procstat.Usage{"n": {Memory: 100, Descriptors: 10}}, procstat.Usage{Memory: 100, Descriptors: 10}
	if found := excesses(before, map[string]procstat.Usage{"n": {Memory: 200, Descriptors: 20}}, may); len(found) > 0 {
		t.Errorf("found %q in allowed usage", found)
	}
	if found := excesses(before, map[string]procstat.Usage{"n": {Memory: 201, Descriptors: 21}}, may); len(found) != 2 {
		t.Errorf("found %q in excessive usage", found)
	}
}

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
