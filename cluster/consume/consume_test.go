package consume

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// released returns the number of tasks that went back untouched.
func (w *world) released() float64 {
	n := 0.0
	for _, p := range w.nodes {
		n += testutil.ToFloat64(p.metrics.released)
	}
	return n
}

func (p *Consumers) look(at func(*Consumers)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at(p)
}

// tries returns the number of demands that were begun.
func (p *Consumers) tries() (n uint64) {
	p.look(func(p *Consumers) { n = p.number })
	return n
}

// run lets consumers work until count tasks have come, and returns the lateness of each.
func (w *world) run(count int, nodes []string, most int, work time.Duration) []time.Duration {
	ctx, cancel := context.WithCancel(context.Background())
	late := make(chan time.Duration, count)
	var wg sync.WaitGroup
	for _, node := range nodes {
		wg.Go(func() { w.consume(ctx, node, most, work, late) })
	}
	var all []time.Duration
	for len(all) < count {
		all = append(all, <-late)
	}
	cancel()
	wg.Wait()
	return all
}

// fill schedules count tasks, the first at begin and each by later than the last, in all shards in turn.
func (w *world) fill(count int, begin time.Time, by time.Duration) {
	var cmds []*fsmpb.Command
	for i := range count {
		at := begin.Add(time.Duration(i) * by)
		cmds = append(cmds, due(named(uint32(i%len(w.shards)), i), at, 10))
	}
	w.must(cmds...)
}

// consume leases and acknowledges until ctx ends, and sends the lateness of each task.
func (w *world) consume(ctx context.Context, node string, most int, work time.Duration, late chan<- time.Duration) {
	for ctx.Err() == nil {
		tasks, err := w.lease(ctx, node, most)
		if err != nil {
			w.t.Error(err)
			return
		}
		now := time.Now()
		for _, task := range tasks {
			late <- now.Sub(time.UnixMilli(task.FireAtMs))
		}
		time.Sleep(work)
		var acks []*fsmpb.Command
		for _, task := range tasks {
			acks = append(acks, ack(task))
		}
		w.must(acks...)
	}
}

// TestPunctual: waiting consumers get tasks when they are due, and hardly any task goes back. A task that was leased
// for a node whose consumers have gone reaches another node's consumer after two entries.
func TestPunctual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 12, nil)
		const count = 2000
		w.fill(count, time.Now().Add(time.Second), time.Millisecond)
		late := w.run(count, []string{"a", "b", "c"}, 100, 0)
		// At first the consumers may come back at the same instants, so that a shard has no demand just before a task is due.
		// They are out of step some hundred tasks later.
		const inStep = 600
		if most := quantile(slices.Clone(late[inStep:]), 0.95); most > time.Millisecond {
			t.Errorf("one in twenty is late by %v", most)
		}
		if most := quantile(late, 0.99); most > 4*time.Millisecond || w.released() > count/100 {
			t.Errorf("one in a hundred is late by %v, %v released", most, w.released())
		}
	})
}

// TestDrain: many tasks due in one millisecond arrive in full batches.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 12, nil)
		const count = 20_000
		begin := time.Now().Add(time.Second)
		w.fill(count, begin, 0)
		time.Sleep(time.Until(begin.Add(-100 * time.Millisecond)))
		late := quantile(w.run(count, []string{"a", "b", "c", "a", "b", "c"}, 1000, time.Millisecond), 1)
		if late > 60*time.Millisecond || w.released() > count/100 {
			t.Errorf("late by %v, %v released", late, w.released())
		}
	})
}

// TestSlowDisks: tasks are late where every entry takes long, but few are released and granted again.
func TestSlowDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 12, nil)
		w.disk.Store(int64(15 * time.Millisecond))
		const count = 1000
		w.fill(count, time.Now().Add(time.Second), time.Millisecond)
		w.run(count, []string{"a", "b", "c"}, 100, 0)
		if w.released() > count/5 {
			t.Errorf("%v released", w.released())
		}
	})
}

// TestOneByOneFromABacklog: a consumer that takes one task at a time gets it from one shard, and each shard has its
// turn.
func TestOneByOneFromABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		w.fill(120, time.Now(), 0)
		time.Sleep(time.Second)
		from := map[uint32]int{}
		for range 60 {
			tasks, err := w.lease(t.Context(), "b", 1)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%v, %v", tasks, err)
			}
			from[tasks[0].Shard]++
			time.Sleep(100 * time.Millisecond)
			w.must(ack(tasks[0]))
		}
		for id, n := range from {
			if n < 5 || n > 15 {
				t.Errorf("%d of 60 tasks from shard %d", n, id)
			}
		}
		if len(from) != 6 || w.released() > 6 {
			t.Errorf("from %d shards, %v released", len(from), w.released())
		}
	})
}

// TestShardsWithoutABacklogAreNotPassedOver: a due task arrives in time although other shards have a backlog.
func TestShardsWithoutABacklogAreNotPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		var cmds []*fsmpb.Command
		for i := range 500 {
			cmds = append(cmds, due(named(0, i), time.Now(), 10))
		}
		w.must(cmds...)
		lone := time.Now().Add(time.Second)
		w.must(due(named(5, "lone"), lone, 10))
		for range 500 {
			tasks, err := w.lease(t.Context(), "b", 1)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%v, %v", tasks, err)
			}
			w.must(ack(tasks[0]))
			if tasks[0].Shard == 6 {
				if late := time.Since(lone); late > 50*time.Millisecond {
					t.Errorf("late by %v", late)
				}
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Error("it never came")
	})
}

// TestWorkersLeaveTasksToOthers: a task that comes due while one node's consumer is at work goes to a waiting consumer.
func TestWorkersLeaveTasksToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		begin := time.Now().Add(time.Second)
		const count = 60
		var cmds []*fsmpb.Command
		for i := range count {
			cmds = append(cmds, due(named(uint32(i%6), i), begin.Add(time.Duration(i)*50*time.Millisecond), 10))
		}
		w.must(cmds...)
		ctx, cancel := context.WithCancel(t.Context())
		late := make(chan time.Duration, count)
		var wg sync.WaitGroup
		wg.Go(func() { w.consume(ctx, "a", 10, 10*time.Second, late) })
		wg.Go(func() { w.consume(ctx, "b", 10, 0, late) })
		var all []time.Duration
		for len(all) < count {
			all = append(all, <-late)
		}
		cancel()
		wg.Wait()
		if late := quantile(all, 1); late > time.Millisecond {
			t.Errorf("late by %v", late)
		}
	})
}

// TestWaitingIsIdle: nodes send no message while no task is due, however many consumers wait.
func TestWaitingIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if tasks, err := w.lease(ctx, "a", 100); len(tasks) > 0 || err != nil {
					t.Errorf("%v, %v", tasks, err)
				}
			})
		}
		time.Sleep(time.Second)
		said, asked := w.said.Load(), w.nodes["a"].tries()
		time.Sleep(time.Hour)
		if w.said.Load() != said || w.nodes["a"].tries() != asked || asked != 6 {
			t.Errorf("%d messages, %d demands", w.said.Load()-said, w.nodes["a"].tries())
		}
		cancel()
		wg.Wait()
	})
}

func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, func(c *Config) { c.MaxWaiting = 2 })
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := w.lease(ctx, "a", 1)
				assert.Equal(t, err, nil)
			})
		}
		synctest.Wait()
		_, err := w.lease(ctx, "a", 1)
		assert.ErrorIs(t, err, task.ErrOverloaded, "the third")
		cancel()
		wg.Wait()
		w.nodes["a"].look(func(p *Consumers) {
			if p.waiting != 0 {
				t.Errorf("%d wait", p.waiting)
			}
		})
	})
}

// TestLargeTasks: one answer has a bound in bytes, and all tasks arrive.
func TestLargeTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, nil)
		const count, size = 300, 256 << 10
		for i := range count {
			w.must(due(named(uint32(i%3), i), time.Now(), size))
		}
		for got := 0; got < count; {
			tasks, err := w.lease(t.Context(), "a", 1000)
			if err != nil || len(tasks) == 0 || len(tasks) > maxAnswerBytes/size+1 {
				t.Fatalf("%d tasks, %v", len(tasks), err)
			}
			var acks []*fsmpb.Command
			for _, task := range tasks {
				acks = append(acks, ack(task))
			}
			w.must(acks...)
			got += len(tasks)
		}
	})
}

// TestLargeTasksForMany: the bytes in flight are bounded, and more follow as tasks arrive.
func TestLargeTasksForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		const count, size = 100, 256 << 10
		got := make(chan int, count)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range count {
			wg.Go(func() {
				tasks, err := w.lease(ctx, "b", 10)
				assert.Equal(t, err, nil)
				got <- len(tasks)
			})
		}
		time.Sleep(time.Second)
		at := time.Now().Add(10 * time.Second)
		for i := range count {
			w.must(due(named(0, i), at, size))
		}
		for n := 0; n < count; {
			n += <-got
		}
		if late := time.Since(at); late > 100*time.Millisecond {
			t.Errorf("after %v", late)
		}
		cancel()
		wg.Wait()
	})
}

// look leases the tasks that are there already, without waiting for others.
func (w *world) look(ctx context.Context, node string, most int) ([]*fsmpb.Task, error) {
	return w.nodes[node].Lease(ctx, task.LeaseRequest{
		Namespace: "default", Queue: "work", Max: most, Lease: time.Minute, Look: true,
	})
}

// TestLookIsQuick: a consumer that does not wait learns after two messages to each node and back that no task is there.
// It gets the tasks that are there.
func TestLookIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 12, nil)
		w.must(due(named(3, "later"), time.Now().Add(time.Hour), 10))
		for round := range 3 {
			for _, node := range []string{"a", "b", "c"} {
				began := time.Now()
				tasks, err := w.look(t.Context(), node, 100)
				if took := time.Since(began); err != nil || len(tasks) != 0 || took > 4*onTheWire {
					t.Errorf("round %d, node %s: %v, %v after %v", round, node, tasks, err, took)
				}
				time.Sleep(time.Duration(round) * idleLife)
			}
		}
		for i := range uint32(12) { // the commands are acknowledged; the shard has not found the task due yet
			w.must(due(named(i, "now"), time.Now(), 10))
			tasks, err := w.look(t.Context(), []string{"a", "b", "c"}[i%3], 100)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("of shard %d: %v, %v", i+1, tasks, err)
			}
			w.must(ack(tasks[0]))
		}
	})
}

// TestLooksOfMany: many consumers that look at once each get a task or an answer without one, and no task is lost.
func TestLooksOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 12, nil)
		const tasks, lookers = 30, 60
		w.fill(tasks, time.Now(), 0)
		var got, none atomic.Int32
		var wg sync.WaitGroup
		for i := range lookers {
			wg.Go(func() {
				leased, err := w.look(t.Context(), []string{"a", "b", "c"}[i%3], 1)
				if err != nil || len(leased) > 1 {
					t.Errorf("%v, %v", leased, err)
				}
				got.Add(int32(len(leased)))
				none.Add(int32(1 - len(leased)))
			})
		}
		began := time.Now()
		wg.Wait()
		t.Logf("%d got one, %d none, after %v", got.Load(), none.Load(), time.Since(began))
		if got.Load() < 1 || got.Load() > tasks || time.Since(began) > 250*time.Millisecond {
			t.Errorf("%d got one, after %v", got.Load(), time.Since(began))
		}
	})
}

// TestLookIsBounded: a look ends with its context while a leader does not answer, and the next leader's answer counts.
func TestLookIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 12, nil)
		w.cut("b", true)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		began := time.Now()
		tasks, err := w.look(ctx, "a", 10)
		if took := time.Since(began); err != nil || len(tasks) != 0 || took != 250*time.Millisecond {
			t.Fatalf("%v, %v after %v", tasks, err, took)
		}
		answered := make(chan time.Duration)
		go func() {
			began := time.Now()
			if tasks, err := w.look(t.Context(), "a", 10); err != nil || len(tasks) != 0 {
				t.Errorf("%v, %v", tasks, err)
			}
			answered <- time.Since(began)
		}()
		time.Sleep(100 * time.Millisecond)
		for id, leader := range w.leader {
			if leader == "b" {
				w.lead(id, "c", true)
			}
		}
		if took := <-answered; took < 100*time.Millisecond || took > 110*time.Millisecond {
			t.Errorf("answered after %v", took)
		}
	})
}
