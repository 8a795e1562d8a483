package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

var testTarget = &fsmpb.Target{Url: "http://target.test/"}

// testPolicies are the policies that a script may give a queue.
var testPolicies = []*fsmpb.QueuePolicy{
	{MaxInFlight: 1},
	{MaxInFlight: 3, Target: testTarget},
	{MaxInFlight: 7},
	nil,
	{Paused: true},
	{Target: testTarget},
	{MaxInFlight: 3, Paused: true},
	{GroupInFlight: 2, Target: testTarget},
	{Fifo: true, Target: testTarget, MaxInFlight: 5},
	{Fifo: true, Fair: true},
	{GroupPerSecond: 2, Target: testTarget, MaxInFlight: 5},
	{GroupPerSecond: 100, Fifo: true},
	{GroupInFlight: 3, Fair: true, GroupWeights: []*fsmpb.GroupWeight{{Group: "g1", Weight: 3}}},
}

func testLane(n int) task.Lane {
	l := task.Lane{Namespace: []string{"ns", "other"}[n/3%2], Queue: fmt.Sprint("q", n%3)}
	if n%4 > 0 {
		l.Destination = fmt.Sprint("receiver", n%4)
	}
	if n >= testReceivers {
		l.Group = fmt.Sprint("g", n%5)
	}
	return l
}

// testReceivers is the number of lanes of testLane without a group.
const testReceivers = 12

// step is one event in a world.
type step struct{ what, which, more int }

func drawScript(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			what:  rapid.IntRange(0, 13).Draw(t, "what"),
			which: rapid.IntRange(0, 2*testReceivers).Draw(t, "which"),
			more:  rapid.IntRange(0, 11).Draw(t, "more"),
		}
	}), 30, 90).Draw(t, "script")
}

func (w *world) do(s step) {
	lane := testLane(s.which)
	switch s.what {
	case 0, 1, 2:
		w.entry(s.what > 0)
	case 3:
		w.due(lane, 1+s.more*s.more)
	case 4:
		w.end(1+s.more*s.more, time.Duration(s.which)*time.Millisecond)
	case 5:
		w.lend(1 + s.more)
	case 6:
		w.policy(queueNamed(lane), testPolicies[s.more%len(testPolicies)])
	case 7:
		w.ask(lane, s.more*s.more*s.more)
	case 8:
		w.down[lane.Receiver()] = s.more%2 == 0
	case 9:
		w.now = w.now.Add(time.Duration(1+s.more*s.more*s.more*s.more) * time.Millisecond)
	case 10:
		w.followPolicies()
		for i := range s.more % 4 {
			w.govern(queueNamed(testLane(i)), testPolicies[(i+s.which)%len(testPolicies)])
		}
		w.planner.Policies(w.now, nil)
	case 11:
		w.planner.Called(w.now)
	case 12:
		w.answer(1 + s.more)
	default:
		w.due(lane, burst+1)
	}
	at, ok := w.planner.Next(w.now)
	fmt.Fprintln(&w.log, "next", at.Sub(w.now), ok)
}

// TestLimitsHold checks that windows, limits and the number of strangers bound the attempts under way, that the
// planner's counts equal the machine's, and that every waiting task is granted once all gates are open.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.SampledFrom([]int{5, 40, 8192}).Draw(t, "strangers"))
		for _, s := range drawScript(t) {
			w.do(s)
		}
		w.openGates()
		w.settleDown(20_000)
		for _, name := range w.names {
			if l := w.lines[name]; l.Ready+l.Firing+l.waiting > 0 {
				t.Errorf("%+v at rest", *l)
			}
		}
		if s := w.planner.Stats(); s != (Stats{Lanes: s.Lanes}) || w.granted != w.settled {
			t.Errorf("%+v, %d granted, %d settled", s, w.granted, w.settled)
		}
	})
}

// openGates removes all policies, lets all receivers answer, and lets consumers ask for every task.
func (w *world) openGates() {
	clear(w.down)
	for q := range w.policies {
		delete(w.policies, q)
	}
	w.planner.Policies(w.now, nil)
	w.followPolicies()
	w.entry(true)
	for _, name := range slices.Clone(w.names) {
		if w.lines[name].Pulled {
			w.ask(name, 1<<20)
		}
	}
}

// TestPlanIsFunctionOfItsInputs checks that two planners with equal calls make equal plans, to the byte and in the same
// order.
func TestPlanIsFunctionOfItsInputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := drawScript(t)
		first, second := newWorld(t, 40), newWorld(t, 40)
		for _, w := range []*world{first, second} {
			for _, s := range script {
				w.do(s)
			}
		}
		if a, b := first.log.String(), second.log.String(); a != b {
			t.Errorf("planned once\n%s\nand once\n%s", a, b)
		}
	})
}

// TestPoliciesWakeInOrder checks that a change of many policies at once wakes lanes in the order of their queues'
// names.
func TestPoliciesWakeInOrder(t *testing.T) {
	w := newWorld(t, 8192)
	var want []string
	for i := range 30 {
		q := QueueName{"ns", fmt.Sprintf("q%02d", i)}
		w.policy(q, &fsmpb.QueuePolicy{Paused: true})
		w.followPolicies()
		w.due(task.Lane{Namespace: q.Namespace, Queue: q.Queue, Destination: "receiver"}, 1)
		want = append(want, q.Queue)
	}
	w.entry(true)
	w.entry(false) // looks at all lanes that the loads woke
	clear(w.policies)
	w.planner.Policies(w.now, nil)
	var got []string
	for _, g := range w.planner.Plan(w.now, false).Grants {
		got = append(got, g.Lane.Queue)
	}
	if !slices.Equal(got, want) {
		t.Errorf("granted in the order of %v", got)
	}
}

// waits counts, for each lane, the consecutive entries without a grant.
type waits map[task.Lane]int

func (m waits) count(w *world) (longest int) {
	for _, name := range w.names {
		if l := w.lines[name]; l.Ready == 0 || w.served[name] > 0 {
			m[name] = 0
		} else {
			m[name]++
			longest = max(longest, m[name])
		}
	}
	clear(w.served)
	return longest
}

// TestEveryLaneHasItsTurn checks that a plan serves as many lanes as it has room for, however unequal the backlogs, so
// that each lane has its turn.
func TestEveryLaneHasItsTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, lanes, waited := newWorld(t, 8192), rapid.IntRange(2, 600).Draw(t, "lanes"), waits{}
		for i := range lanes {
			few := rapid.IntRange(1, 30).Draw(t, "tasks")
			w.due(task.Lane{Namespace: "ns", Queue: "q", Destination: fmt.Sprint(i)}, few*few)
		}
		w.entry(true)
		most := lanes/(maxGrants/testThrottle.Max) + 2
		for range 3 * most {
			w.end(len(w.running), time.Millisecond)
			w.entry(false)
			if longest := waited.count(w); longest > most {
				t.Fatalf("one of %d lanes waits for %d entries, not %d", lanes, longest, most)
			}
		}
	})
}

// TestPermitsAreShared checks that the lanes of a limited queue have equally many turns.
func TestPermitsAreShared(t *testing.T) {
	for _, limit := range []uint32{1, 3, 7} {
		const lanes, rounds = 5, 70
		w := newWorld(t, 8192)
		q := QueueName{"ns", "q"}
		w.policy(q, &fsmpb.QueuePolicy{Queue: "q", MaxInFlight: limit})
		w.followPolicies()
		for i := range lanes {
			w.due(task.Lane{Namespace: "ns", Queue: "q", Destination: fmt.Sprint(i)}, 1000)
		}
		w.entry(true)
		for range rounds {
			w.end(len(w.running), time.Millisecond)
			before := maps.Clone(w.served)
			w.entry(false)
			w.lend(int(limit))
			w.entry(false)
			for name, n := range w.served {
				if share := (int(limit)+lanes-1)/lanes + 1; n-before[name] > share { // plus one that other lanes left
					t.Fatalf("lane %s began %d of %d at once, and its share is %d", name.Destination, n-before[name], limit, share)
				}
			}
		}
		want := int(limit) * rounds / lanes
		for name, got := range w.served {
			if got < want-int(limit) || got > want+int(limit) {
				t.Errorf("limit %d: lane %s began %d, and a fair share is %d", limit, name.Destination, got, want)
			}
		}
		if len(w.served) != lanes {
			t.Errorf("limit %d: %d lanes began something", limit, len(w.served))
		}
	}
}
