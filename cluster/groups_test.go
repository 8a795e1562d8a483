package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// judge is a receiver that fails a part of the first attempts, and judges the attempts of each group.
type judge struct {
	inOrder   bool
	limit     int     // 0: none
	perSecond float64 // 0: no limit
	steady    bool    // no attempt fails

	mu        sync.Mutex
	waiting   map[string]map[string]waiting // by group and id
	underWay  map[string]map[string]int     // attempts, by group and id: a takeover may repeat an attempt
	delivered map[string]bool
	failed    map[string]bool        // once
	begun     map[string][]time.Time // by group: attempts, without those repeated after a takeover
	attempts  map[string]uint32      // by id: the last one
	errs      []error
}

// waiting is a task that was acknowledged, with its instants in Unix milliseconds.
type waiting struct{ due, since int64 }

func newJudge(p *fsmpb.QueuePolicy) *judge {
	return &judge{
		inOrder: p.Fifo, limit: task.GroupLimit(p), perSecond: p.GroupPerSecond,
		begun: map[string][]time.Time{}, attempts: map[string]uint32{}, waiting: map[string]map[string]waiting{}, underWay: map[string]map[string]int{},
		delivered: map[string]bool{}, failed: map[string]bool{},
	}
}

func (j *judge) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	fails := j.begin(a.Task)
	select {
	case <-time.After(time.Duration(rand.IntN(4000)) * time.Microsecond):
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	group, id := a.Task.Spec.Group, a.Task.Id
	if j.underWay[group][id]--; j.underWay[group][id] == 0 {
		delete(j.underWay[group], id)
	}
	if fails {
		return task.Outcome{Error: "not this time"}
	}
	j.delivered[id] = true
	return task.Outcome{Delivered: true}
}

// begin judges an attempt that begins, and reports whether it fails.
func (j *judge) begin(t *fsmpb.Task) (fails bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	group := t.Spec.Group
	if j.underWay[group] == nil {
		j.underWay[group] = map[string]int{}
	}
	j.underWay[group][t.Id]++
	if n := len(j.underWay[group]); j.limit > 0 && n > j.limit {
		j.errs = append(j.errs, fmt.Errorf("%d tasks of group %s under way: %v", n, group, j.underWay[group]))
	}
	for id, other := range j.waiting[group] {
		if j.inOrder && other.due < t.FireAtMs && other.since < t.FireAtMs && !j.delivered[id] {
			j.errs = append(j.errs, fmt.Errorf("%s begins, and %s, due %d ms earlier, is not delivered",
				t.Id, id, t.FireAtMs-other.due))
		}
	}
	if j.perSecond > 0 && t.Attempts > j.attempts[t.Id] {
		j.attempts[t.Id] = t.Attempts
		j.time(group)
	}
	fails = !j.steady && !j.failed[t.Id] && rand.IntN(4) == 0
	j.failed[t.Id] = true
	return fails
}

// time judges an attempt by the earlier ones of its group, which at any time begins those of a tenth of a second, and
// then more at its rate. A permit may travel for some milliseconds.
func (j *judge) time(group string) {
	const travels = 50 * time.Millisecond
	now := time.Now()
	j.begun[group] = append(j.begun[group], now)
	for i, at := range j.begun[group] {
		if n := len(j.begun[group]) - i; float64(n) > max(j.perSecond/10, 1)+j.perSecond*(now.Sub(at)+travels).Seconds() {
			j.errs = append(j.errs, fmt.Errorf("%d attempts of group %s begin within %v", n, group, now.Sub(at)))
		}
	}
}

// consumed judges n further leases of a group by their rate, and returns the number of all.
func (j *judge) consumed(group string, n int) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	for range n {
		j.time(group)
	}
	return len(j.begun[group])
}

func (j *judge) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	outcomes := make([]task.Outcome, len(batch))
	for i, a := range batch {
		outcomes[i] = j.Deliver(ctx, a)
	}
	return outcomes
}

// schedule schedules tasks of a group, which are due within a second in another order than their ids.
func (j *judge) schedule(t *testing.T, c *clustertest.Cluster, queue, group string, n int) {
	t.Helper()
	now := time.Now().UnixMilli()
	j.mu.Lock()
	j.waiting[group] = map[string]waiting{}
	j.mu.Unlock()
	var cmds []*fsmpb.Command
	for i, after := range rand.Perm(n) {
		cmd := schedule(fmt.Sprint(queue, "-", group, "-", i), 0)
		op := cmd.GetSchedule()
		op.FireAtMs = now + 300 + int64(after*700/n)
		op.Spec.Queue, op.Spec.Group, op.Spec.Target = queue, group, receiver
		op.Spec.Retry = &fsmpb.Retry{MinBackoffMs: 20, MaxBackoffMs: 40}
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		mustDo(t, c.Node(i%3), cmd)
		j.mu.Lock()
		j.waiting[group][cmd.Id] = waiting{due: cmd.GetSchedule().FireAtMs, since: time.Now().UnixMilli()}
		j.mu.Unlock()
	}
}

func (j *judge) await(c *clustertest.Cluster, n int) {
	c.Until("all are delivered", func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if len(j.delivered) < n {
			return fmt.Errorf("%d of %d", len(j.delivered), n)
		}
		return nil
	})
}

// TestGroups checks that no more tasks of a group are under way or begin than its queue allows, and that one after the
// other begins in the order of due times where the queue keeps an order, over all shards and nodes. Attempts fail, and
// the owner of the queue dies meanwhile.
func TestGroups(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]*fsmpb.QueuePolicy{
		"order":     {Queue: "order", Fifo: true},
		"in-flight": {Queue: "in-flight", GroupInFlight: 2, MaxInFlight: 7},
		"rate":      {Queue: "rate", GroupPerSecond: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testGroups(t, policy) })
		})
	}
}

func testGroups(t *testing.T, policy *fsmpb.QueuePolicy) {
	const groups, tasks = 5, 24
	j := newJudge(policy)
	c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Deliver = j })
	mustPut(t, c.Node(0), policy)
	for i := range groups {
		j.schedule(t, c, policy.Queue, fmt.Sprint("g", i), tasks)
	}
	j.await(c, groups*tasks/3)
	owner := leaderOf(t, c, "queue/"+policy.Queue)
	c.Crash(owner)
	j.await(c, groups*tasks)
	c.Start(owner)
	c.WaitReady()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, err := range j.errs {
		t.Error(err)
	}
}

// TestGroupRateIsExact checks that a group with tasks enough begins attempts at its rate, to five percent: those of a
// receiver, and those of a consumer, from all shards.
func TestGroupRateIsExact(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{2, 60} {
		for _, pulled := range []bool{false, true} {
			t.Run(fmt.Sprint(perSecond, " pulled ", pulled), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { testGroupRate(t, perSecond, pulled) })
			})
		}
	}
}

func testGroupRate(t *testing.T, perSecond float64, pulled bool) {
	n := int(20 * perSecond)
	j := newJudge(&fsmpb.QueuePolicy{GroupPerSecond: perSecond})
	j.steady = true
	c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Deliver = j })
	policy := &fsmpb.QueuePolicy{Queue: "rate", GroupPerSecond: perSecond, Target: receiver}
	if pulled {
		policy.Target = nil
	}
	mustPut(t, c.Node(0), policy)
	for i := range n {
		cmd := schedule(fmt.Sprint("t", i), 0)
		op := cmd.GetSchedule()
		op.Spec.Queue, op.Spec.Group, op.Spec.Target = policy.Queue, "g", nil
		mustDo(t, c.Node(i%3), cmd)
	}
	var consumers sync.WaitGroup
	for i := 0; pulled && i < 3; i++ {
		consumers.Go(func() {
			for j.consumed("g", 0) < n {
				j.consumed("g", len(lease(t, c.Node(i), policy.Queue, 10, time.Second)))
			}
		})
	}
	consumers.Wait()
	if !pulled {
		j.await(c, n)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.begun["g"]
	took := all[n-1].Sub(all[n/4]).Seconds()
	if rate := float64(n-1-n/4) / took; rate < 0.95*perSecond || rate > 1.05*perSecond || len(j.errs) > 0 {
		t.Errorf("%d attempts began at %g a second, not %g; %v", len(all), rate, perSecond, j.errs)
	}
}
