package shard

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// scheduleStorm schedules n tasks for one receiver, due at once or evenly within a duration.
func scheduleStorm(t testing.TB, lead *node, n int, from time.Time, within time.Duration) {
	const batch = 1000
	for i := 0; i < n; i += batch {
		var cmds []*fsmpb.Command
		for k := i; k < min(i+batch, n); k++ {
			cmd := schedule(fmt.Sprintf("storm-%06d", k), from.Add(within*time.Duration(k)/time.Duration(n)))
			cmd.GetSchedule().Spec.Queue = "storm"
			cmds = append(cmds, cmd)
		}
		lead.mustAll(t, cmds)
	}
}

// schedulePunctual schedules tasks of another queue for another receiver.
func schedulePunctual(t testing.TB, lead *node, n int, from time.Time, within time.Duration) {
	var cmds []*fsmpb.Command
	for k := range n {
		cmd := schedule(fmt.Sprintf("punctual-%04d", k), from.Add(within*time.Duration(k)/time.Duration(n)))
		cmd.GetSchedule().Spec.Target.Url = "http://punctual.test/"
		cmds = append(cmds, cmd)
	}
	lead.mustAll(t, cmds)
}

// TestStorm has 20 000 tasks come due in one millisecond, for a receiver that takes them at its pace. At most a window
// of attempts is under way, and tasks of another queue begin at their instants throughout the storm.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		var mu sync.Mutex
		var now, most, goroutines int
		c.sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
			if strings.HasPrefix(a.Task.Id, "punctual") {
				return task.Outcome{Delivered: true}
			}
			mu.Lock()
			now++
			most, goroutines = max(most, now), max(goroutines, runtime.NumGoroutine())
			mu.Unlock()
			<-time.After(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			now--
			return task.Outcome{Delivered: true}
		}
		lead := c.leader()
		const storm, punctual = 20_000, 200
		due := time.Now().Add(time.Minute).Truncate(time.Millisecond)
		scheduleStorm(t, lead, storm, due, 0)
		schedulePunctual(t, lead, punctual, due, 2*time.Second)
		before := runtime.NumGoroutine()
		time.Sleep(time.Until(due) + 5*time.Minute)
		got := c.sink.all()
		if len(got) != storm+punctual {
			t.Fatalf("%d attempts", len(got))
		}
		for i, at := range punctuality(got) {
			if want := due.Add(2 * time.Second * time.Duration(i) / punctual).Truncate(time.Millisecond); at.Sub(want) > 0 {
				t.Errorf("punctual task %d began %v late", i, at.Sub(want))
			}
		}
		if window := int(lead.cfg.Policy.MaxWindow); most > window || goroutines > before+3*window {
			t.Errorf("%d under way at once, %d goroutines", most, goroutines)
		}
		if last := got[len(got)-1].at.Sub(due); last > 5*time.Second {
			t.Errorf("drained after %v: the window did not grow", last) // 20000/512*20 ms = 0.8 s
		}
	})
}

// punctuality returns the instants at which the punctual tasks began, in the order of their ids.
func punctuality(arrivals []arrival) []time.Time {
	byID := map[string]time.Time{}
	for _, a := range arrivals {
		if strings.HasPrefix(a.id, "punctual") {
			byID[a.id] = a.at
		}
	}
	var ids []string
	for id := range byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var at []time.Time
	for _, id := range ids {
		at = append(at, byID[id])
	}
	return at
}

// BenchmarkStorm has 200 000 tasks come due within a second, on three replicas in memory, for a receiver that
// takes 5 ms for each, and reports how late the tasks of another queue begin meanwhile.
func BenchmarkStorm(b *testing.B) {
	for range b.N {
		const storm, punctual = 200_000, 1000
		c := newReplicas(b, 3, func(cfg *Config) { cfg.Timing = LAN() }).startAll()
		c.sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
			if strings.HasPrefix(a.Task.Id, "storm") {
				<-time.After(5 * time.Millisecond)
			}
			return task.Outcome{Delivered: true}
		}
		lead := c.leader()
		due := time.Now().Add(15 * time.Second).Truncate(time.Millisecond)
		scheduleStorm(b, lead, storm, due, time.Second)
		schedulePunctual(b, lead, punctual, due, 5*time.Second)
		if time.Now().After(due) {
			b.Fatal("scheduling took too long")
		}
		<-time.After(time.Until(due.Add(5 * time.Second)))
		c.eventually("the end of the storm", func() bool {
			return lead.machine.Counts().ByState[fsmpb.State_STATE_DELIVERED] == storm+punctual
		})
		arrivals := c.sink.all()
		var late []time.Duration
		for i, at := range punctuality(arrivals) {
			late = append(late, at.Sub(due.Add(5*time.Second*time.Duration(i)/punctual)))
		}
		slices.Sort(late)
		b.ReportMetric(float64(late[len(late)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(late[len(late)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(late[len(late)-1].Microseconds())/1000, "max-ms")
		for _, a := range slices.Backward(arrivals) {
			if strings.HasPrefix(a.id, "storm") {
				b.ReportMetric(a.at.Sub(due).Seconds(), "drained-s")
				break
			}
		}
		c.close()
	}
}
