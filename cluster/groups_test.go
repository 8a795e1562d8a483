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
	inOrder bool
	limit   int

	mu        sync.Mutex
	waiting   map[string]map[string]waiting // by group and id
	underWay  map[string]map[string]int     // attempts, by group and id: a takeover may repeat an attempt
	delivered map[string]bool
	failed    map[string]bool // once
	errs      []error
}

// waiting is a task that was acknowledged, with its instants in Unix milliseconds.
type waiting struct{ due, since int64 }

func newJudge(inOrder bool, limit int) *judge {
	return &judge{
		inOrder: inOrder, limit: limit, waiting: map[string]map[string]waiting{}, underWay: map[string]map[string]int{},
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
	if n := len(j.underWay[group]); n > j.limit {
		j.errs = append(j.errs, fmt.Errorf("%d tasks of group %s under way: %v", n, group, j.underWay[group]))
	}
	for id, other := range j.waiting[group] {
		if j.inOrder && other.due < t.FireAtMs && other.since < t.FireAtMs && !j.delivered[id] {
			j.errs = append(j.errs, fmt.Errorf("%s begins, and %s, due %d ms earlier, is not delivered",
				t.Id, id, t.FireAtMs-other.due))
		}
	}
	fails = !j.failed[t.Id] && rand.IntN(4) == 0
	j.failed[t.Id] = true
	return fails
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

// TestGroups checks that no more tasks of a group are under way than its queue allows, and that one after the other
// begins in the order of due times where the queue keeps an order, over all shards and nodes. Attempts fail, and the
// owner of the queue dies meanwhile.
func TestGroups(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]*fsmpb.QueuePolicy{
		"order":     {Queue: "order", Fifo: true},
		"in-flight": {Queue: "in-flight", GroupInFlight: 2, MaxInFlight: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testGroups(t, policy) })
		})
	}
}

func testGroups(t *testing.T, policy *fsmpb.QueuePolicy) {
	const groups, tasks = 5, 24
	j := newJudge(policy.Fifo, max(int(policy.GroupInFlight), 1))
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
