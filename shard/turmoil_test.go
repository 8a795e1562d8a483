package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// turmoil runs a random script of operators, receivers, consumers and leaders that act on tasks of a few queues.
type turmoil struct {
	t      *testing.T
	d      *decided
	c      *replicas
	mu     sync.Mutex
	down   map[string]bool // destinations
	tasks  int
	demand map[string]*desk.Demand
}

// step is one event; which is the number of its queue or receiver.
type step struct{ what, which, more int }

var turmoilQueues = []string{"red", "green", "blue"}

func drawSteps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			what:  rapid.IntRange(0, 9).Draw(t, "what"),
			which: rapid.IntRange(0, 2).Draw(t, "which"),
			more:  rapid.IntRange(0, 7).Draw(t, "more"),
		}
	}), 1, 40).Draw(t, "steps")
}

func (m *turmoil) do(s step) {
	queue := turmoilQueues[s.which]
	switch s.what {
	case 0, 1, 2:
		m.schedule(queue, s.more)
	case 3, 4:
		m.d.set(turmoilPolicy(queue, s.more))
	case 5:
		m.d.remove(queue)
	case 6:
		m.mu.Lock()
		m.down[fmt.Sprint(s.which)] = s.more%2 == 0
		m.mu.Unlock()
	case 7:
		m.consume(queue, s.more > 0)
	case 8:
		if l := m.c.leader().current(); l != nil && s.more == 0 {
			l.end(errors.New("turmoil"))
		}
	default:
		time.Sleep(time.Duration(s.more*s.more) * time.Second)
	}
}

// turmoilPolicy returns the n-th of several policies for a queue. Each lets the queue's tasks go sooner or later, or
// pauses it.
func turmoilPolicy(queue string, n int) *fsmpb.QueuePolicy {
	target := &fsmpb.Target{Url: "http://0.test/"}
	return []*fsmpb.QueuePolicy{
		{Queue: queue},
		{Queue: queue, Paused: true},
		{Queue: queue, Target: target},
		{Queue: queue, Target: target, MaxInFlight: 1},
		{Queue: queue, MaxInFlight: 3, MaxPerSecond: 50},
		{Queue: queue, Target: target, MaxPerSecond: 5},
		{Queue: queue, Target: target, BatchMax: 4},
		{Queue: queue, Target: target, Paused: true, MaxInFlight: 2},
	}[n]
}

// schedule makes a few tasks come due soon, with a target of their own or with their queue's.
func (m *turmoil) schedule(queue string, more int) {
	var cmds []*fsmpb.Command
	for range 1 + more*more {
		cmd := inQueue(queue, fmt.Sprintf("t%04d", m.tasks), time.Now().Add(time.Duration(more)*300*time.Millisecond))
		m.tasks++
		spec := cmd.GetSchedule().Spec
		spec.Retry = &fsmpb.Retry{MaxAttempts: task.MaxAttempts, MaxBackoffMs: 20_000}
		if more%2 == 0 {
			spec.Target = &fsmpb.Target{Url: fmt.Sprintf("http://%d.test/", more%3)}
		}
		cmds = append(cmds, cmd)
	}
	m.c.leader().Do(context.Background(), cmds) // refused tasks do not exist
}

func (m *turmoil) respond(_ context.Context, a task.Attempt) task.Outcome {
	<-time.After(30 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down[a.Task.Spec.Target.Url[len("http://"):len("http://")+1]] {
		return task.Outcome{Error: "refused"}
	}
	return task.Outcome{Delivered: true}
}

// acker takes tasks of any number and acknowledges them.
type acker struct{ m *turmoil }

func (a acker) Take(l task.Leased) {
	var cmds []*fsmpb.Command
	for _, task := range l.Tasks {
		cmds = append(cmds, saysOf(task, fsmpb.Verdict_VERDICT_DELIVERED, nil))
	}
	go func() { a.m.c.leader().Do(context.Background(), cmds) }()
}

func (acker) Nothing(uint64) {}

func (acker) End(error) {}

func (m *turmoil) consume(queue string, begin bool) {
	if d := m.demand[queue]; d != nil {
		d.Withdraw()
		m.demand[queue] = nil
	}
	if begin {
		req := task.LeaseRequest{Namespace: "default", Queue: queue, Max: 1 << 20, Lease: 10 * time.Second}
		if d, err := m.c.leader().Lease(req, acker{m}); err == nil {
			m.demand[queue] = d
		}
	}
}

// calm removes all obstacles except limits, and sets the last policy of each queue.
func (m *turmoil) calm(last []int) {
	for i, queue := range turmoilQueues {
		m.d.set(turmoilPolicy(queue, last[i]))
	}
	time.Sleep(20 * time.Second) // receivers that are down keep failing meanwhile
	m.mu.Lock()
	m.down = map[string]bool{}
	m.mu.Unlock()
}

// TestNothingIsForgotten checks that every task is delivered once all gates are open, however they opened and closed
// before, and that the leader's planner is empty then.
func TestNothingIsForgotten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := drawSteps(rt)
		last := rapid.SliceOfN(rapid.SampledFrom([]int{2, 3, 5, 6}), 3, 3).Draw(rt, "last policies")
		failure := ""
		synctest.Test(t, func(t *testing.T) {
			m := &turmoil{t: t, d: newDecided(), down: map[string]bool{}, demand: map[string]*desk.Demand{}}
			m.c = newReplicas(t, 1, m.d.governs)
			m.c.sink.respond = m.respond
			m.c.startAll()
			defer m.c.close()
			m.c.next(m.c.leader(), nil)
			for _, s := range steps {
				m.do(s)
			}
			m.calm(last)
			time.Sleep(8 * time.Minute)
			n := m.c.leader()
			if got := n.machine.Loads(); len(got) > 0 {
				failure = fmt.Sprintf("lanes left: %+v", got)
			}
			if s := planned(n); s != (dispatch.Stats{Lanes: s.Lanes}) {
				failure += fmt.Sprintf("planner: %+v", s)
			}
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}
