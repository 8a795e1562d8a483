package cluster_test

import (
	"context"
	"errors"
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
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/cespare/xxhash/v2"
)

func pulled(queue, id string, delay time.Duration) *fsmpb.Command {
	cmd := schedule(id, delay)
	cmd.GetSchedule().Spec = &fsmpb.Spec{Queue: queue, Payload: []byte(`"` + id + `"`)}
	hash := xxhash.Sum64String(id)
	cmd.Key = &fsmpb.Key{Hash: hash, Call: hash}
	return cmd
}

// doAll carries out commands, each of which must succeed.
func doAll(t testing.TB, n *cluster.Node, cmds ...*fsmpb.Command) {
	t.Helper()
	for i, r := range n.Do(t.Context(), cmds) {
		if r.Err != nil || r.Result.Code > fsmpb.Code_CODE_CREATED {
			t.Errorf("%v: %v", cmds[i], r)
		}
	}
}

func settle(t *fsmpb.Task, verdict fsmpb.Verdict) *fsmpb.Command {
	return &fsmpb.Command{Namespace: t.Namespace, Id: t.Id, Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
		Fence: t.Fence, Occurrence: t.Occurrence, Verdict: verdict, Consumer: true,
	}}}
}

func lease(t testing.TB, n *cluster.Node, queue string, most int, wait time.Duration) []*fsmpb.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	tasks, err := n.Lease(ctx, task.LeaseRequest{Queue: queue, Max: most, Lease: 30 * time.Second})
	assert.Equal(t, err, nil)
	return tasks
}

// patience is longer than a lease. The grants of a deposed leader are made again after that time.
const patience = 45 * time.Second

// leaseAll leases tasks until this many have come. Each comes once, for its first attempt.
func leaseAll(t testing.TB, n *cluster.Node, queue string, count, most int) map[string]*fsmpb.Task {
	t.Helper()
	all := make(map[string]*fsmpb.Task)
	for len(all) < count {
		tasks := lease(t, n, queue, most, patience)
		if len(tasks) == 0 || len(tasks) > most {
			t.Errorf("%d tasks at once, and %d of %d so far", len(tasks), len(all), count)
			return all
		}
		for _, task := range tasks {
			if all[task.Id] != nil {
				t.Errorf("%s is leased twice", task.Id)
			}
			if task.Attempts != 1 || !task.Leased || string(task.Spec.Payload) != `"`+task.Id+`"` {
				t.Errorf("%v", task)
			}
			all[task.Id] = task
		}
	}
	return all
}

// TestLease goes through one cluster's life. The last part kills a node.
func TestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		leaseIsChecked(t, c)
		leaseThroughAnyNode(t, c)
		consumersComeAndGo(t, c)
		leaseSurvivesANode(t, c)
	})
}

func leaseIsChecked(t *testing.T, c *clustertest.Cluster) {
	for _, bad := range []task.LeaseRequest{
		{Queue: "-", Max: 1, Lease: time.Minute},
		{Queue: "a", Max: 0, Lease: time.Minute},
		{Queue: "a", Max: 1001, Lease: time.Minute},
		{Queue: "a", Max: 1, Lease: time.Millisecond},
		{Queue: "a", Max: 1, Lease: 13 * time.Hour},
	} {
		var field *task.FieldError
		if _, err := c.Node(0).Lease(t.Context(), bad); !errors.As(err, &field) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if tasks := lease(t, c.Node(0), "empty", 10, 10*time.Millisecond); len(tasks) > 0 {
		t.Errorf("%v out of nothing", tasks)
	}
}

// Any node leases tasks from every shard, although it leads few of them: tasks that wait already, and tasks that come
// due.
func leaseThroughAnyNode(t *testing.T, c *clustertest.Cluster) {
	for i := range 3 {
		var cmds []*fsmpb.Command
		queue := fmt.Sprint("backlog-", i)
		for j := range 60 {
			cmds = append(cmds, pulled(queue, fmt.Sprintf("%s-%d", queue, j), 0))
		}
		doAll(t, c.Node(0), cmds...)
		for _, task := range leaseAll(t, c.Node(i), queue, len(cmds), 7) {
			doAll(t, c.Node((i+1)%3), settle(task, fsmpb.Verdict_VERDICT_DELIVERED))
		}
		got := make(chan map[string]*fsmpb.Task)
		queue = fmt.Sprint("due-", i)
		go func() { got <- leaseAll(t, c.Node(i), queue, 40, 1000) }()
		for j := range 40 {
			doAll(t, c.Node(i), pulled(queue, fmt.Sprintf("%s-%d", queue, j), time.Duration(j)*5*time.Millisecond))
		}
		<-got
	}
}

// A hundred consumers come and go without a loss: each task is acknowledged once and delivered at its first attempt.
func consumersComeAndGo(t *testing.T, c *clustertest.Cluster) {
	const tasks, consumers = 2000, 100
	acked := make(chan string, tasks)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range consumers {
		wg.Go(func() { comeAndGo(ctx, t, c.Node(i%3), acked) })
	}
	for i := 0; i < tasks; i += 50 {
		var cmds []*fsmpb.Command
		for j := range 50 {
			cmds = append(cmds, pulled("work", fmt.Sprint("task-", i+j), rand.N(300*time.Millisecond)))
		}
		doAll(t, c.Node(i%3), cmds...)
	}
	seen := make(map[string]bool)
	timeout := time.After(60 * time.Second)
	for len(seen) < tasks {
		select {
		case id := <-acked:
			if seen[id] {
				t.Errorf("%s is acknowledged twice", id)
			}
			seen[id] = true
		case <-timeout:
			t.Fatalf("%d of %d tasks arrived", len(seen), tasks)
		}
	}
	cancel()
	wg.Wait()
	for id := range seen {
		task, err := c.Node(0).Get(t.Context(), "", id, false)
		if err != nil || task.State != fsmpb.State_STATE_DELIVERED || task.Attempts != 1 {
			t.Fatalf("%s: %v, %v", id, task, err)
		}
	}
}

// comeAndGo leases with a patience that often ends in the middle, while it waits or while tasks are on their way, and
// acknowledges the tasks it gets.
func comeAndGo(ctx context.Context, t *testing.T, n *cluster.Node, acked chan<- string) {
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, rand.N(30*time.Millisecond))
		if rand.IntN(4) == 0 {
			short = hurried(short, rand.IntN(60))
		}
		tasks, err := n.Lease(short, task.LeaseRequest{Queue: "work", Max: 1 + rand.N(20), Lease: 20 * time.Second})
		cancel()
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		var cmds []*fsmpb.Command
		for _, task := range tasks {
			cmds = append(cmds, settle(task, fsmpb.Verdict_VERDICT_DELIVERED))
		}
		doAll(t, n, cmds...)
		for _, task := range tasks {
			acked <- task.Id
		}
	}
}

// A lease survives the death of the node that leads its shard. The end of a lease without a settle still retries the
// task. Later leaders serve the waiting consumers.
func leaseSurvivesANode(t *testing.T, c *clustertest.Cluster) {
	var cmds []*fsmpb.Command
	for i := range 60 {
		cmds = append(cmds, pulled("held", fmt.Sprint("held-", i), 0))
	}
	doAll(t, c.Node(0), cmds...)
	// Lease half of the tasks for long, and half for a time that ends soon.
	held := make(map[string]*fsmpb.Task)
	ended := make(map[string]uint64)
	for len(held)+len(ended) < len(cmds) {
		long := len(held) < len(cmds)/2
		req := task.LeaseRequest{Queue: "held", Max: 5, Lease: 3 * time.Second}
		if long {
			req.Lease = time.Minute
		}
		tasks, err := c.Node(0).Lease(t.Context(), req)
		assert.NoError(t, err)
		for _, task := range tasks {
			if long {
				held[task.Id] = task
			} else {
				ended[task.Id] = task.Fence
			}
		}
	}
	later := make(chan map[string]*fsmpb.Task, 1)
	go func() { later <- leaseAll(t, c.Node(0), "later", 24, 1000) }()
	c.Crash(1)
	for i := range 24 {
		doAll(t, c.Node(2), pulled("later", fmt.Sprint("later-", i), 0))
	}
	<-later
	for _, task := range held {
		doAll(t, c.Node(2), settle(task, fsmpb.Verdict_VERDICT_DELIVERED))
	}
	for len(ended) > 0 {
		tasks := lease(t, c.Node(2), "held", 100, patience)
		if len(tasks) == 0 {
			t.Fatalf("%d tasks did not come again", len(ended))
		}
		for _, task := range tasks {
			fence, ok := ended[task.Id]
			if !ok || task.Attempts != 2 || task.Fence <= fence {
				t.Errorf("came again, after fence %d: %v", fence, task)
			}
			delete(ended, task.Id)
		}
	}
}
