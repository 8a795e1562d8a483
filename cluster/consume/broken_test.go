package consume

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestNothingIsLost: no task is lost while consumers come and go, at nodes that are cut off now and then.
func TestNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		const count = 2000
		begin := time.Now().Add(time.Second)
		var cmds []*fsmpb.Command
		for i := range count {
			cmds = append(cmds, due(named(uint32(i%6), i), begin.Add(rand.N(5*time.Second)), 10))
		}
		w.must(cmds...)
		ctx, cancel := context.WithCancel(t.Context())
		acked := make(chan *fsmpb.Task, count)
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() { w.comeAndGo(ctx, []string{"a", "b", "c"}[i%3], acked) })
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(rand.N(200 * time.Millisecond))
				node := []string{"a", "b", "c"}[rand.N(3)]
				w.cut(node, true)
				w.lead(1+rand.N(uint32(6)), []string{"a", "b", "c"}[rand.N(3)], rand.N(2) == 0)
				time.Sleep(rand.N(20 * time.Millisecond))
				w.cut(node, false)
			}
		})
		seen := map[string]bool{}
		again := 0
		for len(seen) < count {
			task := <-acked
			if seen[task.Id] {
				t.Errorf("%s is acknowledged twice", task.Id)
			}
			seen[task.Id] = true
			if task.Attempts > 1 {
				again++ // it was lost on a cut stream, and its lease ended
			}
		}
		cancel()
		wg.Wait()
		if again > count/10 {
			t.Errorf("the leases of %d tasks had to end", again)
		}
	})
}

func (w *world) comeAndGo(ctx context.Context, node string, acked chan<- *fsmpb.Task) {
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		tasks, err := w.lease(short, node, 1+rand.N(10))
		cancel()
		assert.Equal(w.t, err, nil)
		for _, task := range tasks {
			w.must(ack(task))
			acked <- task
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
}

// TestNobodyTakes checks that tasks whose consumers have left are ready again, untouched, after the linger.
func TestNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		var cmds []*fsmpb.Command
		for i := range uint32(6) {
			cmds = append(cmds, due(named(i, "x"), time.Now(), 10))
		}
		w.must(cmds...)
		time.Sleep(time.Second)
		tasks, err := w.lease(t.Context(), "a", 1)
		if err != nil || len(tasks) != 1 {
			t.Fatalf("%v, %v", tasks, err)
		}
		time.Sleep(100 * time.Millisecond)
		for i := range uint32(6) {
			task, err := w.shards[i+1].Get(t.Context(), "", named(i, "x"), false)
			assert.NoError(t, err)
			if id := task.Id; id != tasks[0].Id && (task.State != fsmpb.State_STATE_READY || task.Attempts != 0) {
				t.Errorf("%v", task)
			}
		}
		assert.Equal(t, w.released(), 5, "released")
		time.Sleep(2 * idleLife)
		w.nodes["a"].look(func(p *Consumers) {
			if len(p.pools) > 0 || p.asks > 0 || p.buffered != 0 {
				t.Errorf("%d pools, %d demands, %d bytes are left", len(p.pools), p.asks, p.buffered)
			}
		})
	})
}

// TestKeptFromItsWork: a node that was paused releases its stale tasks before it serves a consumer, since little of
// their leases may be left.
func TestKeptFromItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		w.fill(6, time.Now(), 0)
		if tasks, err := w.lease(t.Context(), "a", 1); err != nil || len(tasks) != 1 {
			t.Fatalf("%v, %v", tasks, err)
		}
		time.Sleep(5 * time.Millisecond)
		w.nodes["a"].look(func(p *Consumers) {
			for _, q := range p.pools {
				if len(q.buffer) != 5 || !q.timer.Stop() {
					t.Errorf("%d tasks lie there", len(q.buffer))
				}
			}
		})
		time.Sleep(10 * time.Second)
		for range 5 {
			tasks, err := w.lease(t.Context(), "a", 1)
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%v, %v", tasks, err)
			}
			if left := time.Until(time.UnixMilli(tasks[0].LeaseEndMs)); left < time.Minute-maxLinger {
				t.Errorf("%v are left of the lease of %s", left, tasks[0].Id)
			}
		}
	})
}

// TestLeaderMoves: tasks follow a leader that moves, with news of the move, without news, and when its node is gone.
func TestLeaderMoves(t *testing.T) {
	for name, move := range map[string]func(*world){
		"told":      func(w *world) { w.lead(1, "c", true) },
		"not told":  func(w *world) { w.lead(1, "c", false) },
		"node gone": func(w *world) { w.cut("b", true); w.lead(1, "c", true) },
		"cut off and back": func(w *world) {
			w.cut("b", true)
			time.Sleep(50 * time.Millisecond)
			w.cut("b", false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, nil)
				w.lead(1, "b", true)
				due1 := time.Now().Add(5 * time.Second)
				w.must(due(named(0, "x"), due1, 10))
				time.AfterFunc(time.Second, func() { move(w) })
				tasks, err := w.lease(t.Context(), "a", 10)
				if late := time.Since(due1); err != nil || len(tasks) != 1 || late > time.Millisecond {
					t.Errorf("%v, %v, late by %v", tasks, err, late)
				}
			})
		})
	}
}

// TestNoLeader: a wait survives a time without any leader, and the node searches for one at longer and longer
// intervals.
func TestNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.must(due(named(0, "x"), time.Now(), 10))
		w.lead(1, "", true)
		time.AfterFunc(time.Minute, func() { w.lead(1, "b", true) })
		began := time.Now()
		tasks, err := w.lease(t.Context(), "a", 10)
		if took := time.Since(began); err != nil || len(tasks) != 1 || took > time.Minute+10*time.Millisecond {
			t.Errorf("%v, %v, after %v", tasks, err, took)
		}
		if tries := w.nodes["a"].tries(); tries > 200 {
			t.Errorf("%d tries", tries)
		}
	})
}

// TestClose: Close sends consumers away and gives back the tasks that arrive meanwhile.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6, nil)
		left := make(chan error)
		go func() {
			_, err := w.lease(t.Context(), "a", 10)
			left <- err
		}()
		at := time.Now().Add(time.Second)
		for i := range uint32(6) {
			w.must(due(named(i, "x"), at, 10))
		}
		time.Sleep(time.Until(at) - time.Millisecond)
		go w.nodes["a"].Close()
		assert.ErrorIs(t, <-left, task.ErrNotProposed, "left with")
		_, err := w.lease(t.Context(), "a", 1)
		assert.ErrorIs(t, err, task.ErrNotProposed, "came with")
		got := 0
		for got < 6 {
			tasks, err := w.lease(t.Context(), "b", 10)
			if err != nil || time.Since(at) > 100*time.Millisecond {
				t.Fatalf("%v after %v", err, time.Since(at))
			}
			got += len(tasks)
		}
	})
}

// TestNewsOfALeaderIsFollowed: a demand moves to the new leader although the old one, perhaps cut off, stays silent.
func TestNewsOfALeaderIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, err := w.lease(ctx, "b", 10)
			assert.Equal(t, err, nil)
		}()
		time.Sleep(time.Second)
		w.mu.Lock()
		old := w.open[1]
		w.open[1] = nil
		w.mu.Unlock()
		w.lead(1, "c", true)
		time.Sleep(time.Second)
		w.mu.Lock()
		if len(old) != 1 || len(w.open[1]) != 1 || w.open[1][0].node != "c" {
			t.Errorf("asked: %v, and then %v", old, w.open[1])
		}
		w.mu.Unlock()
		cancel()
		<-gone
	})
}

// stuckStream sends demands and takes no tasks.
type stuckStream struct {
	ctx  context.Context
	asks chan *clusterpb.PullRequest
}

func (s stuckStream) Context() context.Context { return s.ctx }

func (s stuckStream) Send(*clusterpb.PullReply) error {
	<-s.ctx.Done()
	return context.Cause(s.ctx)
}

func (s stuckStream) Recv() (*clusterpb.PullRequest, error) {
	select {
	case m := <-s.asks:
		return m, nil
	case <-s.ctx.Done():
		return nil, context.Cause(s.ctx)
	}
}

// TestUnsentIsReleased: tasks that a node does not receive are released, except one message that may be in flight.
func TestUnsentIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.lead(1, "a", true)
		ctx, cancel := context.WithCancel(t.Context())
		stream := stuckStream{ctx, make(chan *clusterpb.PullRequest, 1)}
		served := make(chan error)
		go func() { served <- w.nodes["a"].Serve(stream, nil) }()
		stream.asks <- &clusterpb.PullRequest{Demands: []*clusterpb.PullDemand{
			{Number: 1, Shard: 1, Namespace: "default", Queue: "work", LeaseMs: 60_000, Total: 10},
		}}
		begin := time.Now().Add(time.Second)
		w.fill(3, begin, 10*time.Millisecond)
		time.Sleep(time.Until(begin) + time.Second)
		cancel()
		assert.ErrorIs(t, <-served, context.Canceled)
		time.Sleep(time.Second)
		tasks, err := w.lease(t.Context(), "b", 10)
		if err != nil || len(tasks) != 2 || tasks[0].Id != named(0, 1) || tasks[0].Attempts != 1 {
			t.Errorf("%v, %v", tasks, err)
		}
	})
}
