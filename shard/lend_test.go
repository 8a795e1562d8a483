package shard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// toOwner sends the calls for permits of queues to the leader of the shard that owns all queues.
type toOwner struct {
	Limits // nil: no queue limits its groups

	mu    sync.Mutex
	owner *replicas
}

func (o *toOwner) Borrow(ctx context.Context, ask Borrow) (Loan, error) {
	err := error(&task.NotLeaderError{})
	for _, id := range o.owner.ids {
		o.mu.Lock()
		s := o.owner.nodes[id].Shard
		o.mu.Unlock()
		if s == nil || !s.IsLeader() {
			continue
		}
		var loan Loan
		if loan, err = s.Lend(ctx, ask); err == nil {
			return loan, nil
		}
	}
	return Loan{}, err
}

// crowd counts the attempts under way at a receiver.
type crowd struct {
	mu        sync.Mutex
	now, most int
	by        map[string]int // attempts by the first letters of the task's id
	starts    []time.Time
	took      time.Duration
}

func (w *crowd) respond(_ context.Context, a task.Attempt) task.Outcome {
	w.mu.Lock()
	w.now++
	w.most = max(w.most, w.now)
	w.by[a.Task.Id[:3]]++
	w.starts = append(w.starts, time.Now())
	w.mu.Unlock()
	<-time.After(w.took)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now--
	return task.Outcome{Delivered: true}
}

// read returns copies, since attempts may begin at the same instant.
func (w *crowd) read() (most int, starts []time.Time, by map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most, slices.Clone(w.starts), maps.Clone(w.by)
}

// manyShards starts n shards of one replica each beside an owner of three replicas, all with one set of policies and
// one receiver.
func manyShards(t *testing.T, n int, d *decided, w *crowd) (owner *replicas, shards []*replicas) {
	w.by = map[string]int{}
	to := &toOwner{}
	tune := func(id uint32) func(*Config) {
		return func(cfg *Config) {
			cfg.ID, cfg.Policies, cfg.Limits = id, d, to
			cfg.Timing = LAN()
			cfg.Timing.Calm, cfg.Timing.Stuck = time.Minute, 10*time.Minute
		}
	}
	to.owner = newReplicas(t, 3, tune(100)).startAll()
	for i := range n {
		c := newReplicas(t, 1, tune(uint32(i)))
		c.sink.respond = w.respond
		shards = append(shards, c.startAll())
	}
	return to.owner, shards
}

// TestLimitOfOne checks a queue with max_in_flight 1 that twelve shards share, even while its owner changes the leader.
func TestLimitOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "q", Target: &fsmpb.Target{Url: queueURL}, MaxInFlight: 1})
		w := &crowd{took: 20 * time.Millisecond}
		owner, shards := manyShards(t, 12, d, w)
		const each = 100
		for i, c := range shards {
			var cmds []*fsmpb.Command
			for k := range each {
				cmds = append(cmds, inQueue("q", fmt.Sprintf("%02d-%03d", i, k), time.Now()))
			}
			c.leader().mustAll(t, cmds)
		}
		owner.leader()
		time.Sleep(13 * time.Second)
		most, starts, by := w.read()
		begun := len(starts)
		if most != 1 || begun < 350 {
			t.Errorf("%d begun, %d at once", begun, most)
		}
		for id, n := range by {
			if n < begun/12-5 || n > begun/12+5 {
				t.Errorf("shard %s began %d of %d", id, n, begun)
			}
		}
		lost := owner.leader().cfg.NodeID
		owner.cut(lost)
		owner.leader(owner.others(lost)...)
		time.Sleep(2 * time.Minute)
		if most, starts, _ = w.read(); most != 1 || len(starts) != 12*each {
			t.Errorf("%d begun, %d at once in the end", len(starts), most)
		}
	})
}

// TestRateOfAQueue checks that two lanes of one queue share its rate and keep to it.
func TestRateOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "q", MaxPerSecond: 10})
		w := &crowd{took: time.Millisecond}
		owner, shards := manyShards(t, 2, d, w)
		owner.leader()
		for i, c := range shards {
			var cmds []*fsmpb.Command
			for k := range 200 {
				cmd := inQueue("q", fmt.Sprintf("%d%d-%03d", i, k%2, k), time.Now())
				cmd.GetSchedule().Spec.Target = &fsmpb.Target{Url: fmt.Sprintf("http://lane%d.test/", k%2)}
				cmds = append(cmds, cmd)
			}
			c.leader().mustAll(t, cmds)
		}
		time.Sleep(21 * time.Second)
		_, starts, by := w.read()
		begun := len(starts)
		if begun < 180 || begun > 212 {
			t.Errorf("%d begun in 21 s at 10 a second", begun)
		}
		for i, at := range starts { // no 11 starts within less than 0.9 s
			if i >= 12 && at.Sub(starts[i-12]) < 900*time.Millisecond {
				t.Errorf("12 within %v", at.Sub(starts[i-12]))
			}
		}
		for lane, n := range by {
			if n < begun/4-8 || n > begun/4+8 {
				t.Errorf("lane %s began %d of %d", lane, n, begun)
			}
		}
	})
}

// TestLimitAcrossTakeover checks that attempts begun by the previous leader count against the limit.
func TestLimitAcrossTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{
			Queue: "q", Target: &fsmpb.Target{Url: queueURL, TimeoutMs: 600_000}, MaxInFlight: 4,
		})
		c := newReplicas(t, 3, d.governs).startAll()
		var mu sync.Mutex
		running := map[string]bool{} // by webhook id, because the same attempt may run on two nodes
		most := 0
		c.sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
			mu.Lock()
			running[a.Task.Id] = true
			most = max(most, len(running))
			mu.Unlock()
			<-time.After(time.Minute)
			mu.Lock()
			defer mu.Unlock()
			delete(running, a.Task.Id)
			return task.Outcome{Delivered: true}
		}
		n := c.leader()
		var cmds []*fsmpb.Command
		for i := range 20 {
			cmds = append(cmds, inQueue("q", fmt.Sprintf("t%02d", i), time.Now()))
		}
		n.mustAll(t, cmds)
		time.Sleep(10 * time.Second)
		c.cut(n.cfg.NodeID)
		c.leader(c.others(n.cfg.NodeID)...)
		time.Sleep(20 * time.Minute)
		delivered := map[string]bool{}
		for _, a := range c.sink.all() {
			delivered[a.id] = true
		}
		mu.Lock()
		defer mu.Unlock()
		if most > 4 || len(delivered) != 20 {
			t.Errorf("%d at once, %d delivered", most, len(delivered))
		}
	})
}

// TestBrokenReceiver checks that hundreds of tasks for a receiver that is down use few attempts, delay no other
// receiver, and are delivered once the receiver is back.
func TestBrokenReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		const tasks = 1000
		back := time.Now().Add(10 * time.Minute)
		c.sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
			if a.Task.Id == "other" || time.Now().After(back) {
				return task.Outcome{Delivered: true}
			}
			return task.Outcome{Error: "connection refused"}
		}
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		var cmds []*fsmpb.Command
		for i := range tasks {
			cmds = append(cmds, schedule(fmt.Sprintf("t%04d", i), due))
		}
		fine := schedule("other", due)
		fine.GetSchedule().Spec.Target.Url = "http://fine.test/"
		n.mustAll(t, append(cmds, fine))
		time.Sleep(time.Until(due) + time.Millisecond)
		synctest.Wait()
		if got := c.sink.of("other"); len(got) != 1 || !got[0].at.Equal(due) {
			t.Errorf("another receiver's task: %v", got)
		}
		time.Sleep(time.Until(back))
		if got := len(c.sink.all()); got > 200 {
			t.Errorf("%d attempts in ten minutes", got)
		}
		if s := planned(n); s.Broken != 1 {
			t.Errorf("the breaker is not open: %+v", s)
		}
		time.Sleep(10 * time.Minute)
		delivered := map[string]int{}
		for _, a := range c.sink.all() {
			if a.at.After(back) {
				delivered[a.id]++
			}
		}
		if len(delivered) != tasks || n.machine.Counts().ByState[fsmpb.State_STATE_DEAD] != 0 {
			t.Errorf("%d delivered, %d dead", len(delivered), n.machine.Counts().ByState[fsmpb.State_STATE_DEAD])
		}
		if slices.Max(slices.Collect(func(yield func(int) bool) {
			for _, n := range delivered {
				yield(n)
			}
		})) > 1 {
			t.Error("repeats")
		}
	})
}
