package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// laneAt returns one of a namespace's lanes.
func laneAt(namespace string, n int) task.Lane {
	return task.Lane{Namespace: namespace, Queue: "q", Destination: fmt.Sprint("receiver", n)}
}

// storm lets tasks of many lanes of a namespace wait.
func (w *world) storm(namespace string, lanes, tasks int) {
	for i := range lanes {
		w.due(laneAt(namespace, i), tasks)
	}
}

// grantsBy returns the number of tasks in a plan's grants by namespace.
func grantsBy(plan Plan) map[string]int {
	n := map[string]int{}
	for _, g := range plan.Grants {
		n[g.Lane.Namespace] += int(g.Max)
	}
	return n
}

// TestNeighbourOfAStorm checks that a task is in the next plan if it becomes ready beside thousands of waiting lanes of
// another namespace.
func TestNeighbourOfAStorm(t *testing.T) {
	w := newWorld(t, 1<<20)
	w.storm("storm", 5000, 20)
	w.entry(true)
	for range 5 {
		w.end(len(w.running), time.Millisecond)
		w.due(laneAt("calm", 0), testThrottle.Start+1) // one more than an Advance grants
		w.entry(true)
		plan := w.planner.Plan(w.now, false)
		if n := grantsBy(plan)["storm"]; n < maxGrants/2 {
			t.Errorf("%d tasks of the storm", n)
		}
		w.planner.Applied(w.now, Entry{})
		calm := w.lines[laneAt("calm", 0)]
		w.end(len(w.running), time.Millisecond)
		w.entry(false)
		if calm.Ready > 0 {
			t.Fatalf("%d tasks still wait", calm.Ready)
		}
	}
}

// TestNamespacesShareByWeight checks that namespaces with a backlog share the plans by weight, and that one without a
// backlog leaves its part to the others.
func TestNamespacesShareByWeight(t *testing.T) {
	for name, users := range map[string]bool{"alone": false, "beside users": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1<<20)
			w.planner.woken.Weights = func(namespace string) int { return map[string]int{"a": 1, "b": 3}[namespace] }
			w.storm("a", 300, 1000)
			w.storm("b", 40, 10_000)
			w.due(laneAt("c", 0), 5)
			w.entry(true)
			w.end(len(w.running), time.Millisecond)
			sum := map[string]int{}
			for range 400 {
				if users {
					w.planner.Called(w.now)
				}
				before := len(w.running)
				w.entry(false)
				for _, g := range w.running[before:] {
					sum[g.Lane.Namespace]++
				}
				w.end(len(w.running), time.Millisecond)
				w.now = w.now.Add(time.Millisecond)
			}
			if ratio := float64(sum["b"]) / float64(sum["a"]); sum["a"] < 1000 || ratio < 2.7 || ratio > 3.3 {
				t.Errorf("%v", sum)
			}
		})
	}
}

// TestRestIsOfTheBurst checks that a rest holds back the namespace that made the burst, and no other.
func TestRestIsOfTheBurst(t *testing.T) {
	w := newWorld(t, 1<<20)
	w.storm("storm", 100, 1000)
	w.due(laneAt("calm", 0), 1)
	w.entry(true)
	for !w.planner.backlog.isResting(w.now) {
		w.planner.Called(w.now)
		w.end(len(w.running), time.Millisecond)
		w.entry(false)
	}
	w.due(laneAt("calm", 1), testThrottle.Start+3)
	w.entry(true)
	w.end(len(w.running), time.Millisecond)
	w.planner.Called(w.now)
	w.entry(false)
	if !w.planner.backlog.isResting(w.now) || w.lines[laneAt("calm", 1)].Ready > 0 {
		t.Errorf("%d tasks of the neighbour wait", w.lines[laneAt("calm", 1)].Ready)
	}
	if at, ok := w.planner.Next(w.now); !ok || !at.Equal(w.planner.backlog.until) {
		t.Errorf("next %v, %v, want the end of the rest", at, ok)
	}
	if n := grantsBy(w.planner.Plan(w.now, false)); len(n) > 0 {
		t.Errorf("%v during the rest", n)
	}
}

// TestSilentReceiversOfANeighbour checks that a namespace with silent receivers leaves a quarter more attempts to the
// others.
func TestSilentReceiversOfANeighbour(t *testing.T) {
	w := newWorld(t, 40)
	w.storm("silent", 10, 40)
	w.entry(true)
	w.entry(false)
	if w.planner.pushed != 40 {
		t.Fatalf("%+v", w.planner.Stats())
	}
	w.storm("calm", 30, 1)
	w.entry(true)
	w.entry(false)
	assert.Equal(t, w.planner.spaces.crowd.spaces["calm"], 10, "attempts of the neighbour")
}

// endOf ends all attempts of a namespace, and returns their number.
func (w *world) endOf(namespace string) int {
	isOther := func(g task.Grant) bool { return g.Lane.Namespace != namespace }
	own := slices.DeleteFunc(slices.Clone(w.running), isOther)
	w.running = slices.Concat(own, slices.DeleteFunc(w.running, func(g task.Grant) bool { return !isOther(g) }))
	w.end(len(own), time.Millisecond)
	return len(own)
}

// TestNeighbourUsesItsRoomAgain checks that a namespace beside silent receivers gets the extra attempts again each time
// when some of its own have ended, and that the silent namespace gets none of them.
func TestNeighbourUsesItsRoomAgain(t *testing.T) {
	w := newWorld(t, 40)
	w.storm("silent", 10, 40)
	w.entry(true)
	w.entry(false)
	w.storm("calm", 60, 1)
	w.storm("other", 60, 1)
	w.entry(true)
	for done := 0; done < 120; {
		w.entry(true)
		if n := w.planner.pushed; n > 60 {
			t.Fatalf("%d attempts are under way", n)
		}
		assert.MustEqual(t, w.planner.spaces.crowd.spaces["silent"], 40, "attempts of the silent namespace")
		ended := w.endOf("calm") + w.endOf("other")
		if done += ended; ended == 0 {
			t.Fatalf("the neighbours stand still after %d tasks: %+v", done, w.planner.Stats())
		}
		w.entry(false)
		if at, ok := w.planner.Next(w.now); done < 120 && (!ok || at.After(w.now)) {
			t.Fatalf("after %d tasks the next plan is at %v, %v", done, at, ok)
		}
	}
}

// TestSpacesAreForgotten checks that a namespace without lanes leaves no record.
func TestSpacesAreForgotten(t *testing.T) {
	w := newWorld(t, 8192)
	for i := range 2000 {
		w.due(laneAt(fmt.Sprint("n", i), 0), 1)
	}
	w.entry(true)
	w.end(len(w.running), time.Millisecond)
	w.entry(false)
	if n := len(w.planner.spaces.byName); n > maxIdleLanes {
		t.Errorf("%d records", n)
	}
}

// BenchmarkNamespaces makes entries as BenchmarkEntry does, with the busy lanes in one namespace and in several.
func BenchmarkNamespaces(b *testing.B) {
	for _, namespaces := range []int{1, 2, 64} {
		b.Run(fmt.Sprint(namespaces), func(b *testing.B) {
			const busy = 64
			now, cfg := time.Unix(1e9, 0), throttle.Default()
			p := New(Config{Throttle: cfg, Crowd: NewCrowd(1 << 14), Policies: policies{}})
			loads := make([]task.LaneLoad, busy)
			grants := make([]task.Grant, busy)
			for i := range loads {
				loads[i] = task.LaneLoad{Lane: laneAt(fmt.Sprint("ns", i%namespaces), i), Ready: 1000, Firing: cfg.Start}
				grants[i] = task.Grant{Lane: loads[i].Lane}
			}
			p.Begin(now, loads, nil)
			delivered := Ending{Ending: throttle.Ending{Delivered: true, Took: time.Millisecond}}
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				for i := range loads {
					p.Ended(now, loads[i].Lane, &delivered)
				}
				p.Plan(now, true)
				p.Applied(now, Entry{Proposed: true, Took: time.Millisecond, Lanes: loads, Grants: grants})
				p.Next(now)
			}
		})
	}
}
