package shard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

// decided stands for the control group: it holds the policies of all queues, the same on all nodes.
type decided struct {
	mu       sync.Mutex
	policies map[string]*fsmpb.QueuePolicy
	unknown  bool
	changed  chan struct{}

	calendar *fsmpb.Calendar // nil: none
}

func newDecided(policies ...*fsmpb.QueuePolicy) *decided {
	d := &decided{policies: map[string]*fsmpb.QueuePolicy{}, changed: make(chan struct{})}
	d.set(policies...)
	return d
}

func (d *decided) Policy(_, queue string) *fsmpb.QueuePolicy {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unknown {
		return nil
	}
	return d.policies[queue]
}

func (d *decided) Calendar(_, name string) (*calendar.Calendar, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calendar == nil || d.calendar.Name != name {
		return nil, 0
	}
	c, err := calendar.New(series.CalendarOf(d.calendar))
	if err != nil {
		panic(err)
	}
	return c, d.calendar.Version
}

func (d *decided) CalendarVersion(namespace, name string) uint64 {
	_, version := d.Calendar(namespace, name)
	return version
}

// setCalendar decides the only calendar; nil: none.
func (d *decided) setCalendar(c *fsmpb.Calendar) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calendar = c
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *decided) Watch() (Policed, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.SortedFunc(maps.Values(d.policies), func(a, b *fsmpb.QueuePolicy) int {
		return cmp.Compare(a.Queue, b.Queue)
	})
	return Policed{Queues: all, Known: !d.unknown}, d.changed
}

func (d *decided) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *decided) set(policies ...*fsmpb.QueuePolicy) {
	d.change(func() {
		for _, p := range policies {
			d.policies[p.Queue] = p
		}
	})
}

func (d *decided) remove(queue string) { d.change(func() { delete(d.policies, queue) }) }

// rules returns the rules that a machine should have.
func (d *decided) rules() []*fsmpb.QueueRule {
	policed, _ := d.Watch()
	var rules []*fsmpb.QueueRule
	for _, p := range policed.Queues {
		rules = append(rules, fsm.RuleOf(p))
	}
	return rules
}

func (d *decided) governs(cfg *Config) { cfg.Policies = d }

func equalRules(a, b []*fsmpb.QueueRule) bool {
	return slices.EqualFunc(a, b, func(a, b *fsmpb.QueueRule) bool { return proto.Equal(a, b) })
}

// inQueue schedules a task without a target of its own.
func inQueue(queue, id string, at time.Time) *fsmpb.Command {
	cmd := schedule(id, at)
	cmd.GetSchedule().Spec.Queue, cmd.GetSchedule().Spec.Target = queue, nil
	return cmd
}

func (n *node) mustAll(t testing.TB, cmds []*fsmpb.Command) {
	t.Helper()
	for _, reply := range n.Do(t.Context(), cmds) {
		if reply.Err != nil {
			t.Fatal(reply.Err)
		}
	}
}

const queueURL = "http://queue.test:80/in"

// TestRulesFollowPolicies changes policies, kills leaders, and makes changes that no leader has seen.
func TestRulesFollowPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var policies []*fsmpb.QueuePolicy
		for i := range 2*maxRules + 10 {
			policies = append(policies, &fsmpb.QueuePolicy{Queue: fmt.Sprintf("q%03d", i), MaxInFlight: 3})
		}
		d := newDecided(policies...)
		c := newReplicas(t, 3, d.governs).startAll()
		agreed := func() {
			t.Helper()
			time.Sleep(time.Second)
			n := c.leader()
			time.Sleep(time.Minute)
			if got := n.machine.Rules(); !equalRules(got, d.rules()) {
				t.Errorf("%d rules: %v", len(got), got)
			}
			c.agree()
		}
		agreed()
		d.set(&fsmpb.QueuePolicy{Queue: "q001", Paused: true, KeepDoneMs: 7}, &fsmpb.QueuePolicy{
			Queue: "new", Target: &fsmpb.Target{Url: queueURL, TimeoutMs: 5}, Retry: &fsmpb.Retry{MaxAttempts: 2},
		})
		d.remove("q002")
		agreed()
		before, _ := c.leader().machine.Hash()
		d.set() // a change without effect
		time.Sleep(time.Minute)
		if after, _ := c.leader().machine.Hash(); after != before {
			t.Errorf("%d commands for nothing", after-before)
		}
		c.kill(c.leader().cfg.NodeID)
		d.remove("q003")
		agreedWithout := c.leader()
		time.Sleep(time.Minute)
		if !equalRules(agreedWithout.machine.Rules(), d.rules()) {
			t.Error("the next leader did not catch up")
		}
	})
}

// TestUnknownPolicies checks that a node that does not know the policies yet changes no rules, and that queues held by
// the rules stay held.
func TestUnknownPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "q", Target: &fsmpb.Target{Url: queueURL}, Paused: true})
		c := newReplicas(t, 1, d.governs).startAll()
		c.leader()
		time.Sleep(time.Minute)
		c.kill("n1")
		d.change(func() { d.unknown = true })
		c.start("n1")
		n := c.leader()
		n.must(t, inQueue("q", "a", time.Now().Add(time.Second)))
		own := schedule("b", time.Now().Add(time.Second))
		own.GetSchedule().Spec.Queue = "q"
		n.must(t, own)
		time.Sleep(time.Minute)
		if len(n.machine.Rules()) != 1 || len(c.sink.all()) != 0 {
			t.Errorf("rules %v, %d attempts", n.machine.Rules(), len(c.sink.all()))
		}
		d.change(func() { d.unknown = false })
		time.Sleep(time.Minute)
		assert.Equal(t, len(c.sink.all()), 0, "attempts although paused")
		d.set(&fsmpb.QueuePolicy{Queue: "q", Target: &fsmpb.Target{Url: queueURL}})
		time.Sleep(time.Minute)
		assert.Equal(t, len(c.sink.all()), 2, "attempts in the end")
	})
}

// TestQueueTarget checks that a task without a target is delivered to its queue's target, and that its history holds
// the node and the time.
func TestQueueTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &fsmpb.Target{
			Url: queueURL, TimeoutMs: 7000, Headers: []*fsmpb.Header{{Name: "x-shop", Value: "1"}},
		}
		d := newDecided(&fsmpb.QueuePolicy{
			Queue: "q", Target: target, Retry: &fsmpb.Retry{MaxAttempts: 2, MinBackoffMs: 3000, MaxBackoffMs: 3000},
			Secrets: [][]byte{[]byte("new"), []byte("old")},
		})
		c := newReplicas(t, 1, d.governs).startAll()
		attempts := make(chan task.Attempt, 10)
		c.sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
			attempts <- a
			return task.Outcome{Error: "500"}
		}
		n := c.leader()
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		n.must(t, inQueue("q", "a", due))
		time.Sleep(time.Minute)
		if len(attempts) != 2 {
			t.Fatalf("%d attempts, want the queue's two", len(attempts))
		}
		for range 2 {
			a := <-attempts
			if !proto.Equal(a.Task.Spec.Target, target) || a.Timeout != 7*time.Second || len(a.Secrets) != 2 {
				t.Errorf("%v within %v, %d secrets", a.Task.Spec.Target, a.Timeout, len(a.Secrets))
			}
		}
		if wait := c.sink.all()[1].at.Sub(due); wait < 3*time.Second || wait > 3100*time.Millisecond {
			t.Errorf("the second attempt after %v", wait)
		}
		task, err := n.Get(t.Context(), "", "a", false)
		if err != nil || task.State != fsmpb.State_STATE_DEAD || task.Spec.Target != nil {
			t.Fatalf("%v, %v", task, err)
		}
		if h := task.History; len(h) != 2 || h[0].Node != "n1" || h[0].StartedAtMs != due.UnixMilli() || h[1].Error != "500" {
			t.Errorf("history %v", h)
		}
	})
}

// TestPause checks that no attempt begins while a queue is paused, even in lanes of tasks with targets of their own.
// All begin after the pause.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "q", Paused: true})
		c := newReplicas(t, 3, d.governs).startAll()
		n, due := c.leader(), time.Now().Add(time.Minute)
		for i := range 50 {
			cmd := schedule(fmt.Sprintf("t%d", i), due)
			cmd.GetSchedule().Spec.Queue = "q"
			n.must(t, cmd)
		}
		n.must(t, schedule("other", due))
		time.Sleep(time.Hour)
		if got := c.sink.all(); len(got) != 1 || got[0].id != "other" {
			t.Errorf("%d attempts", len(got))
		}
		d.remove("q")
		time.Sleep(time.Minute)
		got := c.sink.all()
		assert.Equal(t, len(got), 51, "attempts in the end")
		d.set(&fsmpb.QueuePolicy{Queue: "q", Paused: true})
		synctest.Wait() // until the leader follows the policy, as a call that pauses a queue waits
		late := schedule("late", time.Now().Add(time.Millisecond))
		late.GetSchedule().Spec.Queue = "q"
		n.must(t, late)
		time.Sleep(time.Hour)
		task, err := n.Get(t.Context(), "", "late", false)
		if err != nil || task.State != fsmpb.State_STATE_READY || task.Attempts != 0 {
			t.Errorf("%v, %v", task, err)
		}
	})
}

// TestLostTarget checks that tasks waiting for a queue's target wait for consumers, with no attempt spent, once the
// queue has lost its target.
func TestLostTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "q", Target: &fsmpb.Target{Url: queueURL}})
		c := newReplicas(t, 1, func(cfg *Config) { d.governs(cfg); cfg.Policy.Window = 1 }).startAll()
		release := make(chan struct{})
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome { <-release; return task.Outcome{Delivered: true} }
		n, due := c.leader(), time.Now().Add(time.Second)
		n.mustAll(t, []*fsmpb.Command{inQueue("q", "a", due), inQueue("q", "b", due), inQueue("q", "c", due)})
		time.Sleep(2 * time.Second)
		d.remove("q")
		close(release)
		time.Sleep(time.Minute)
		loads := n.machine.Loads()
		if len(c.sink.all()) != 1 || len(loads) != 1 || loads[0].Ready != 2 || !loads[0].Pulled {
			t.Errorf("%d attempts, %+v", len(c.sink.all()), loads)
		}
		d.set(&fsmpb.QueuePolicy{Queue: "q", Target: &fsmpb.Target{Url: queueURL}})
		time.Sleep(time.Minute)
		if got := c.sink.all(); len(got) != 3 || got[1].attempts != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestBatches checks that attempts that start together share a request, as far as the queue and the targets allow.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{
			Queue: "q", Target: &fsmpb.Target{Url: queueURL}, BatchMax: 10, Retry: &fsmpb.Retry{MinBackoffMs: 1000},
		})
		c := newReplicas(t, 1, func(cfg *Config) { d.governs(cfg); cfg.Policy.Window = 100 }).startAll()
		failed := map[string]bool{}
		var mu sync.Mutex
		c.sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
			mu.Lock()
			defer mu.Unlock()
			if a.Task.Id == "t03" && !failed[a.Task.Id] {
				failed[a.Task.Id] = true
				return task.Outcome{Error: "500"}
			}
			return task.Outcome{Delivered: true}
		}
		n, due := c.leader(), time.Now().Add(time.Minute)
		var cmds []*fsmpb.Command
		for i := range 25 {
			cmds = append(cmds, inQueue("q", fmt.Sprintf("t%02d", i), due))
		}
		n.mustAll(t, append(cmds, schedule("elsewhere", due)))
		time.Sleep(5 * time.Minute)
		sizes := slices.Sorted(slices.Values(c.sink.together()))
		if !slices.Equal(sizes, []int{1, 5, 10, 10}) || len(c.sink.all()) != 27 || len(c.sink.of("t03")) != 2 {
			t.Errorf("batches of %v, %d attempts, %d of the one that failed", sizes, len(c.sink.all()), len(c.sink.of("t03")))
		}
		assert.Equal(t, n.machine.Counts().ByState[fsmpb.State_STATE_DELIVERED], 26, "delivered")
	})
}
