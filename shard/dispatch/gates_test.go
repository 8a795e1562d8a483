package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

var one = task.Lane{Namespace: "ns", Queue: "q", Destination: "receiver"}

// TestReceiverIsLeftAlone checks that a receiver that names a time to come back gets no attempt before, and that the
// planner's Next names that time.
func TestReceiverIsLeftAlone(t *testing.T) {
	w := newWorld(t, 8192)
	w.due(one, 10)
	w.entry(true)
	w.end(len(w.running), time.Millisecond)
	w.settles[0].how = &Ending{Ending: throttle.Ending{Took: time.Millisecond, RetryAfter: 3 * time.Second}}
	w.entry(false)
	w.entry(false) // the load changed by the first entry woke the lane
	until := w.now.Add(3 * time.Second)
	if at, ok := w.planner.Next(w.now); !ok || !at.Equal(until) {
		t.Fatalf("next %v, %v, want %v", at, ok, until)
	}
	w.now = until.Add(-time.Millisecond)
	if plan := w.planner.Plan(w.now, true); len(plan.Grants) > 0 {
		t.Errorf("%v", plan.Grants)
	}
	w.now = until
	plan := w.planner.Plan(w.now, true)
	assert.Equal(t, len(plan.Grants), 1, "%v when the time is over", plan.Grants)
}

// TestBrokenReceiverIsProbed checks that grants of an Advance against an open breaker come back, and that one attempt
// at a time probes the receiver.
func TestBrokenReceiverIsProbed(t *testing.T) {
	w := newWorld(t, 8192)
	w.down[one] = true
	w.due(one, 100)
	w.entry(true)
	for range testThrottle.Trip {
		w.end(len(w.running), time.Millisecond)
		w.entry(false)
	}
	if s := w.planner.Stats(); s.Broken != 1 || s.Asleep != 1 {
		t.Fatalf("%+v", s)
	}
	grant := task.Grant{Lane: one, Fence: 1}
	if start, back := w.planner.Applied(w.now, Entry{Proposed: true, Grants: []task.Grant{grant}}); len(start) > 0 || len(back) != 1 {
		t.Errorf("%d started and %d given back", len(start), len(back))
	}
	start, back := w.planner.Applied(w.now, Entry{Proposed: true, Grants: []task.Grant{grant}, Renewed: true})
	if len(start) != 1 || len(back) > 0 {
		t.Errorf("%d renewed ones started and %d were given back", len(start), len(back))
	}
	w.end(len(w.running), time.Millisecond)
	w.now = w.now.Add(time.Minute)
	w.entry(false)
	assert.Equal(t, len(w.running), 1, "probes at once")
	w.down[one] = false
	w.end(1, time.Millisecond)
	w.entry(false)
	if s := w.planner.Stats(); s.Broken != 0 || len(w.running) != 2 { // the window of one has grown
		t.Errorf("%+v after a success, %d under way", s, len(w.running))
	}
}

// TestPulledLaneHasNoBreaker checks that a lane whose queue loses its target is no longer counted as broken, before and
// after the ends of the attempts that were under way, and whether or not tasks wait.
func TestPulledLaneHasNoBreaker(t *testing.T) {
	for _, tasks := range []int{testThrottle.Trip, 100} {
		w := newWorld(t, 8192)
		lane := task.Lane{Namespace: "ns", Queue: "q"}
		w.policy(queueNamed(lane), &fsmpb.QueuePolicy{Target: testTarget})
		w.followPolicies()
		w.down[lane] = true
		w.due(lane, tasks)
		w.entry(true)
		for range 2 * testThrottle.Trip {
			w.end(1, time.Millisecond)
			w.entry(false)
		}
		if s := w.planner.Stats(); s.Broken != 1 {
			t.Fatalf("%+v", s)
		}
		w.policy(queueNamed(lane), nil)
		w.followPolicies()
		w.entry(false)
		late := Ending{Ending: throttle.Ending{Took: time.Millisecond}}
		for range testThrottle.Trip {
			s := w.planner.Stats()
			assert.Equal(t, s.Broken, 0, "%+v of a pulled lane with %d tasks", s, tasks)
			w.planner.Ended(w.now, lane, &late)
		}
		w.planner.Applied(w.now, Entry{})
		s := w.planner.Stats()
		assert.Equal(t, s.Broken, 0, "%+v after late ends, with %d tasks", s, tasks)
	}
}

// TestRestEndsBeforeTheBacklog checks that the next plan comes at the end of a backlog's rest, or when a lane wakes
// before.
func TestRestEndsBeforeTheBacklog(t *testing.T) {
	w := newWorld(t, 8192)
	p := w.planner
	for range burst {
		w.due(one, 1)
	}
	w.entry(true)
	p.Called(w.now)
	p.backlog.until = w.now.Add(50 * time.Millisecond)
	p.spaces.endBurst(true)
	w.end(len(w.running), time.Millisecond)
	w.entry(false)
	if len(w.running) > 0 {
		t.Errorf("%d attempts began during a rest", len(w.running))
	}
	if at, ok := p.Next(w.now); !ok || !at.Equal(p.backlog.until) {
		t.Errorf("next %v, %v, want the end of the rest", at, ok)
	}
	other := p.open(task.Lane{Namespace: "ns", Queue: "q", Destination: "other"})
	p.asleep.add(other, w.now.Add(20*time.Millisecond))
	if at, ok := p.Next(w.now); !ok || !at.Equal(w.now.Add(20*time.Millisecond)) {
		t.Errorf("next %v, %v, want the instant that wakes a lane", at, ok)
	}
}

// TestEmpty checks that a question whether a task is there is answered once the wheel has popped all tasks that were
// due at the question, and no waiting task will be granted.
func TestEmpty(t *testing.T) {
	lane := task.Lane{Namespace: "ns", Queue: "q"}
	other := task.Lane{Namespace: "ns", Queue: "other"}
	w := newWorld(t, 8192)
	p := w.planner
	if got := p.Empty(100, 0); len(got) > 0 {
		t.Errorf("%v were not asked for", got)
	}
	p.Look(other)
	p.Look(lane)
	if got := p.Empty(100, 100); len(got) > 0 {
		t.Errorf("%v are empty while a task may be due", got)
	}
	p.Look(other) // counts from the next call of Empty
	if got := p.Empty(200, 150); !slices.Equal(got, []task.Lane{lane}) {
		t.Errorf("%v are empty, want %v", got, lane)
	}
	w.due(lane, 1)
	w.entry(true)
	w.ask(lane, 1)
	p.Look(lane)
	if got := p.Empty(300, 301); !slices.Equal(got, []task.Lane{other}) {
		t.Errorf("%v are empty, want %v", got, other)
	}
	w.entry(false)
	if got := p.Empty(300, 301); !slices.Equal(got, []task.Lane{lane}) || p.Stats().Looks > 0 {
		t.Errorf("%v are empty once its task is granted, %+v", got, p.Stats())
	}
}

// TestIdleLanesAreForgotten checks that a planner remembers a bounded number of lanes without tasks, the latest to
// become idle.
func TestIdleLanesAreForgotten(t *testing.T) {
	w := newWorld(t, 16384)
	for i := range maxIdleLanes + 200 {
		lane := task.Lane{Namespace: "ns", Queue: fmt.Sprint(i % 7), Destination: fmt.Sprint(i)}
		w.down[lane] = true
		w.due(lane, 1)
	}
	w.entry(true)
	w.end(len(w.running), time.Millisecond)
	for i := range w.settles {
		w.settles[i].again = false // the failed attempt was the last one
	}
	w.entry(false)
	if s := w.planner.Stats(); s != (Stats{Lanes: maxIdleLanes}) || w.planner.idle.Len() != maxIdleLanes {
		t.Errorf("%+v, %d idle", s, w.planner.idle.Len())
	}
	lane := w.names[0]
	if _, ok := w.planner.lanes[lane]; ok || len(w.planner.unusual.lanes) > 0 {
		t.Errorf("the lane that was idle longest is known, %d are unusual", len(w.planner.unusual.lanes))
	}
}

// TestForgottenLaneIsNotNamed checks that an Advance has no credit for a forgotten lane. With a window of one, a lane
// without attempts counts as unusual.
func TestForgottenLaneIsNotNamed(t *testing.T) {
	w := newWorld(t, 8192)
	w.planner.cfg.Throttle.Start = 1
	w.due(one, 1)
	w.entry(true)
	for range 3 {
		w.end(1, time.Millisecond)
		w.due(one, 1)
		w.entry(true)
	}
	w.end(1, time.Millisecond)
	w.entry(false)
	w.planner.close(w.planner.lanes[one])
	if plan := w.planner.Plan(w.now, true); len(plan.Credits) > 0 {
		t.Errorf("%v", plan.Credits)
	}
}

// TestUnknownPolicyHolds checks that a queue held by the shard's rules stays held until this node knows its policy.
func TestUnknownPolicyHolds(t *testing.T) {
	w := newWorld(t, 8192)
	q := queueNamed(one)
	w.planner.Begin(w.now, []task.LaneLoad{{Lane: one, Ready: 2}}, map[QueueName]bool{q: true})
	if plan := w.planner.Plan(w.now, false); len(plan.Grants) > 0 {
		t.Errorf("%v of a queue that is held", plan.Grants)
	}
	w.planner.Applied(w.now, Entry{})
	if at, ok := w.planner.Next(w.now); ok {
		t.Errorf("there is something to plan at %v", at)
	}
	w.planner.Policies(w.now, nil)
	if plan := w.planner.Plan(w.now, false); len(plan.Grants) != 1 || plan.Grants[0].Max != 2 {
		t.Errorf("%v once the policy is known", plan.Grants)
	}
}

// TestBrokenPreconditionsPanic checks that a clock that goes back, and a negative load, cause a panic: both are
// mistakes of the caller.
func TestBrokenPreconditionsPanic(t *testing.T) {
	for name, do := range map[string]func(*world){
		"clock": func(w *world) { w.planner.Plan(w.now.Add(-1), false) },
		"load": func(w *world) {
			w.planner.Applied(w.now, Entry{Lanes: []task.LaneLoad{{Lane: one, Ready: -1}}})
		},
	} {
		w := newWorld(t, 8192)
		w.planner.Called(w.now)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			do(w)
		}()
	}
}
