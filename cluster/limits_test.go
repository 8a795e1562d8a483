package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// meter is a receiver that counts its simultaneous attempts.
type meter struct {
	takes time.Duration // duration of each attempt

	mu        sync.Mutex
	now, most int
	ended     map[string]int // attempts, by id
	targets   map[string]int // attempts, by URL
}

func (m *meter) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	m.begin(a)
	select {
	case <-time.After(m.takes):
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now--
	m.ended[a.Task.Id]++
	return task.Outcome{Delivered: true}
}

func (m *meter) begin(a task.Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil {
		m.ended, m.targets = make(map[string]int), make(map[string]int)
	}
	m.now++
	m.most = max(m.most, m.now)
	m.targets[a.Task.Spec.Target.GetUrl()]++
}

func (m *meter) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	outcomes := make([]task.Outcome, len(batch))
	for i, a := range batch {
		outcomes[i] = m.Deliver(ctx, a)
	}
	return outcomes
}

// delivered returns the number of delivered tasks.
func (m *meter) delivered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.ended)
}

// repeated returns an error with the name of a task that was delivered more than once.
func (m *meter) repeated() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, n := range m.ended {
		if n != 1 {
			return fmt.Errorf("%s has been attempted %d times", id, n)
		}
	}
	return nil
}

func (m *meter) reset() (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	most = m.most
	m.most, m.ended, m.targets = 0, make(map[string]int), make(map[string]int)
	return most
}

// into schedules n tasks, due now, in a queue: over all shards, through all nodes.
func into(t *testing.T, c *clustertest.Cluster, queue string, n int, target *fsmpb.Target) {
	t.Helper()
	for i := range 3 {
		var cmds []*fsmpb.Command
		for j := i; j < n; j += 3 {
			cmd := schedule(fmt.Sprint(queue, "-", j), 0)
			cmd.GetSchedule().Spec.Queue, cmd.GetSchedule().Spec.Target = queue, target
			cmds = append(cmds, cmd)
		}
		mustDo(t, c.Node(i), cmds...)
	}
}

func awaitDelivered(c *clustertest.Cluster, m *meter, n int) {
	c.Until("all are delivered", func() error {
		if got := m.delivered(); got != n {
			return fmt.Errorf("%d of %d", got, n)
		}
		return nil
	})
}

var receiver = &fsmpb.Target{Url: "http://127.0.0.1:1/"}

// A queue with max_in_flight 1 has one attempt at a time, however many shards and nodes have its tasks.
func testMaxInFlight(t *testing.T, c *clustertest.Cluster, m *meter) {
	for _, limit := range []int{1, 5} {
		mustPut(t, c.Node(limit%3), &fsmpb.QueuePolicy{Queue: "in-flight", MaxInFlight: uint32(limit)})
		into(t, c, "in-flight", 90, receiver)
		awaitDelivered(c, m, 90)
		if err := m.repeated(); err != nil {
			t.Error(err)
		}
		if most := m.reset(); most > limit {
			t.Errorf("%d attempts at once, with a limit of %d", most, limit)
		}
	}
}

// The rate holds for the queue as a whole: tasks that are due at once take their time. A permit is lost if the call that
// fetches it is given up on its way back, so the whole may take a few permits longer.
func testMaxPerSecond(t *testing.T, c *clustertest.Cluster, m *meter) {
	defer m.reset()
	const rate, tasks, burst, lost = 50, 60, 5, 12
	mustPut(t, c.Node(0), &fsmpb.QueuePolicy{Queue: "rate", MaxPerSecond: rate})
	began := time.Now()
	into(t, c, "rate", tasks, receiver)
	awaitDelivered(c, m, tasks)
	took, least, most := time.Since(began), (tasks-burst-1)*time.Second/rate, (tasks+lost)*time.Second/rate
	if took < least || took > most {
		t.Errorf("%d tasks at %d a second took %v, not %v to %v", tasks, rate, took, least, most)
	}
}

func awaitReady(t *testing.T, c *clustertest.Cluster, queue string, n uint64) {
	t.Helper()
	c.Until("the tasks wait", func() error {
		_, counts, err := c.Node(0).Queue(t.Context(), "", queue)
		if err == nil && counts.Ready != n {
			err = fmt.Errorf("%d of %d are ready", counts.Ready, n)
		}
		return err
	})
}

// After PutQueue has returned, no leader begins an attempt of a paused queue. The tasks of a resumed queue go on.
func testPauseIsInForce(t *testing.T, c *clustertest.Cluster, m *meter) {
	const rounds, tasks = 10, 36
	defer m.reset()
	for round := range rounds {
		queue := fmt.Sprint("pausing-", round%2)
		mustPut(t, c.Node(round%3), &fsmpb.QueuePolicy{Queue: queue, Paused: true})
		into(t, c, queue, tasks, receiver)
		awaitReady(t, c, queue, tasks)
		mustPut(t, c.Node((round+1)%3), &fsmpb.QueuePolicy{Queue: queue})
		awaitDelivered(c, m, tasks)
		m.reset()
	}
}

// A paused queue begins no attempt, even after a restart of all leaders. A resumed queue goes on.
func testPauseOutlivesARestart(t *testing.T, c *clustertest.Cluster, m *meter) {
	defer m.reset()
	p := &fsmpb.QueuePolicy{Queue: "paused", Paused: true}
	mustPut(t, c.Node(0), p)
	into(t, c, "paused", 36, receiver)
	into(t, c, "other", 36, receiver)
	awaitDelivered(c, m, 36) // those of the other queue
	awaitReady(t, c, "paused", 36)
	for i := range 3 {
		c.Stop(i)
	}
	for i := range 3 {
		c.Start(i)
	}
	c.WaitReady()
	everywhere(t, c, 3, "paused", p)
	awaitReady(t, c, "paused", 36)
	into(t, c, "later", 36, receiver)
	awaitDelivered(c, m, 72)
	awaitReady(t, c, "paused", 36)
	mustPut(t, c.Node(1), &fsmpb.QueuePolicy{Queue: "paused"})
	awaitDelivered(c, m, 108)
}

// Tasks that name no target go to the queue's target while it has one. Otherwise they wait for consumers.
func testTargetOfTheQueue(t *testing.T, c *clustertest.Cluster, m *meter) {
	p := &fsmpb.QueuePolicy{Queue: "target", Target: &fsmpb.Target{Url: "http://127.0.0.1:1/first"}}
	for i, path := range []string{"first", "second"} {
		p = proto.CloneOf(p)
		p.Target.Url = "http://127.0.0.1:1/" + path
		mustPut(t, c.Node(i), p)
		into(t, c, "target", 36, nil)
		awaitDelivered(c, m, 36)
		if got := m.targets[p.Target.Url]; got != 36 {
			t.Errorf("%d of 36 went to %s: %v", got, p.Target.Url, m.targets)
		}
		m.reset()
	}
	if existed, err := c.Node(2).Policies().DeleteQueue(t.Context(), "", "target"); err != nil || !existed {
		t.Fatal(existed, err)
	}
	into(t, c, "target", 36, nil)
	awaitReady(t, c, "target", 36)
	if n := m.delivered(); n != 0 {
		t.Errorf("without a policy %d were delivered", n)
	}
}

// The death of the lending node only delays tasks. The attempts in flight stay within the limit except for one loan's
// life.
func testLenderDies(t *testing.T, c *clustertest.Cluster, m *meter) {
	mustPut(t, c.Node(0), &fsmpb.QueuePolicy{Queue: "lender", MaxInFlight: 1})
	into(t, c, "lender", 60, receiver)
	c.Until("some are delivered", func() error {
		if n := m.delivered(); n < 10 {
			return errors.New("not yet")
		}
		return nil
	})
	lender := leaderOf(t, c, "queue/lender") // such an id has the slot of the queue's owner: see package router
	c.Crash(lender)
	awaitAll := func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.ended) < 60 { // a takeover may repeat a running attempt
			return fmt.Errorf("%d of 60", len(m.ended))
		}
		return nil
	}
	c.Until("the others are, too", awaitAll)
	c.Start(lender)
	c.WaitReady()
}
