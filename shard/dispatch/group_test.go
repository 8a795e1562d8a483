package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/groups"
)

// Ask implements Owners. answer answers the ask later.
func (w *world) Ask(ask groups.Ask) (cancel func()) {
	name := QueueName{ask.Namespace, ask.Queue}
	if w.asks[name] != nil {
		w.t.Fatalf("two asks of %v", name)
	}
	w.asks[name] = &ask
	return func() { ask.Wait = false }
}

// answer answers the asks under way, each with up to most permits for a group. An ask that waits for permits is answered
// only if there are some. This shard is the only one.
func (w *world) answer(most int) {
	for _, name := range slices.SortedFunc(maps.Keys(w.asks), QueueName.compare) {
		ask, answer := w.asks[name], groups.Answer{}
		standing, ok := w.planner.Standing(groups.Look{Namespace: name.Namespace, Queue: name.Queue, Groups: namesOf(ask.Wants)})
		if !ok || standing.Done != ask.Number-1 {
			w.t.Fatalf("asks %d, and says %+v", ask.Number, standing)
		}
		for i, want := range ask.Wants {
			n, policy := standing.Groups[i], w.policies[name]
			free := want.Permits
			if limit := task.GroupLimit(policy); limit > 0 {
				free = limit - n.UnderWay
			}
			if policy.GetFifo() && n.Retrying > 0 || !n.Waiting {
				free = 0
			}
			if free = min(free, want.Permits, most); free > 0 {
				answer.Given = append(answer.Given, groups.Given{Group: want.Group, Permits: free, FirstMs: n.FirstMs})
			}
		}
		if len(answer.Given) > 0 || !ask.Wait {
			delete(w.asks, name)
			w.planner.Answered(w.now, ask.Number, name, answer, nil)
		}
	}
}

func namesOf(wants []groups.Want) (names []string) {
	for _, w := range wants {
		names = append(names, w.Group)
	}
	return names
}

// attempts returns the numbers of attempts that have started and not ended, by receiver, without consumers' leases.
func (w *world) attempts() map[task.Lane]int {
	n := map[task.Lane]int{}
	for _, g := range w.running {
		if g.Tag == 0 {
			n[g.Lane.Receiver()]++
		}
	}
	return n
}

// checkGroup judges a started grant by the limits of its group. A limit that was lowered meanwhile ends no attempt.
func (w *world) checkGroup(g task.Grant) {
	policy := w.policies[queueNamed(g.Lane)]
	if g.Lane.Group == "" || !task.LimitsGroups(policy) {
		return
	}
	firing := 0
	for name, l := range w.lines {
		if queueNamed(name) == queueNamed(g.Lane) && name.Group == g.Lane.Group {
			firing += l.Firing
		}
	}
	if limit := task.GroupLimit(policy); limit > 0 && firing > limit {
		w.t.Fatalf("%d under way of group %v, which may have %d", firing, g.Lane, limit)
	}
}

// checkParts compares the planner's count of a lane's tasks that may begin with a sum over its parts.
func (w *world) checkParts(l *lane) {
	if l.parts == nil {
		return
	}
	ready, firing, waiting := 0, 0, 0
	for _, p := range l.parts.all {
		ready += p.left()
		firing += p.Firing
		waiting += p.Ready
		if (p.left() > 0) != (p.at >= 0) {
			w.t.Fatalf("part %v has %d tasks left, and index %d", p.Lane, p.left(), p.at)
		}
	}
	if l.Ready != ready || l.Firing != firing || l.parts.waiting != waiting {
		w.t.Fatalf("lane %v counts %d, %d and %d, and its parts %d, %d and %d",
			l.Lane, l.Ready, l.Firing, l.parts.waiting, ready, firing, waiting)
	}
}

// groupLane is the lane of a group of testQueue, whose tasks go to one receiver.
func groupLane(group string) task.Lane {
	return task.Lane{Namespace: "ns", Queue: "q", Destination: "receiver", Group: group}
}

var testQueue = queueNamed(groupLane(""))

// steps makes entries, with all permits that are free, until nothing may begin.
func (w *world) steps() {
	for range 10 {
		w.answer(1 << 20)
		w.entry(true)
	}
}

// next lets one attempt begin and end, and returns its lane.
func (w *world) next() task.Lane {
	for i := 0; len(w.running) == 0; i++ {
		if i > 3 {
			w.t.Fatalf("nothing begins: %+v", w.planner.Stats())
		}
		w.lend(1)
		w.entry(false)
	}
	lane := w.running[0].Lane
	w.end(1, time.Millisecond)
	return lane
}

// TestGroupHoldsOnlyItself checks that a group with as many attempts as it may have holds back no other group, and no
// task without a group.
func TestGroupHoldsOnlyItself(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{GroupInFlight: 2, Target: testTarget})
	w.due(groupLane("slow"), 50)
	w.steps()
	w.due(groupLane("other"), 1)
	w.due(groupLane(""), 1)
	w.steps()
	for group, want := range map[string]int{"slow": 2, "other": 1, "": 1} {
		if got := w.line(groupLane(group)).Firing; got != want {
			t.Errorf("%d attempts of group %q, want %d", got, group, want)
		}
	}
}

// TestGroupKeepsOrder checks that one task of a group begins at a time, in the order of due times over all receivers,
// and a failed one again before the others.
func TestGroupKeepsOrder(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{Fifo: true, Target: testTarget})
	elsewhere := groupLane("g")
	elsewhere.Destination = "elsewhere"
	lanes := []task.Lane{groupLane("g"), elsewhere}
	for i := range 10 {
		w.due(lanes[i%2], 1)
		w.entry(true)
	}
	for i := range 10 {
		w.steps()
		if len(w.running) != 1 || w.running[0].Lane != lanes[i%2] {
			t.Fatalf("attempt %d: under way are %v", i, w.running)
		}
		w.down[lanes[i%2].Receiver()] = true
		w.end(1, time.Millisecond)
		w.steps()
		if len(w.running) != 1 || w.running[0].Lane != lanes[i%2] {
			t.Fatalf("attempt %d, after a failure: under way are %v", i, w.running)
		}
		w.down[lanes[i%2].Receiver()] = false
		w.end(1, time.Millisecond)
	}
}

// TestRefusedGroupWaits checks that a group whose wish the owner has refused waits at the owner for the next permit, also
// while it has a permit that it cannot use: its queue may begin no attempt.
func TestRefusedGroupWaits(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{GroupInFlight: 2, MaxInFlight: 5, Target: testTarget})
	w.due(groupLane("g"), 3)
	w.entry(true)
	for i, permits := range []int{1, 0} {
		if ask := w.asks[testQueue]; ask == nil || ask.Wait {
			t.Fatalf("ask %d: %+v", i, ask)
		}
		w.answer(permits)
		w.entry(true)
	}
	if ask := w.asks[testQueue]; ask == nil || !ask.Wait || len(w.running) > 0 {
		t.Errorf("after a refusal: %+v, under way are %v", ask, w.running)
	}
}

// TestPermitLapses checks that a permit of a group with a rate is void when its receiver has had no place for longer
// than the rate allows, so that attempts do not begin together after a long pause. The group asks for another one.
func TestPermitLapses(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{GroupPerSecond: 0.5, Target: testTarget})
	w.due(groupLane(""), testThrottle.Start)
	w.steps()
	w.due(groupLane("g"), 3)
	w.entry(true)
	w.answer(1)
	w.now = w.now.Add(2 * time.Second)
	w.end(1, time.Millisecond)
	w.entry(true)
	if n := w.line(groupLane("g")).Firing; n > 0 {
		t.Errorf("%d attempts begin by a permit of two seconds ago", n)
	}
	if ask := w.asks[testQueue]; ask == nil || len(ask.Wants) != 1 || ask.Wants[0].Permits != 1 || len(ask.Unused) > 0 {
		t.Errorf("asks %+v", ask)
	}
	w.answer(1)
	w.entry(true)
	if n := w.line(groupLane("g")).Firing; n != 1 {
		t.Errorf("%d attempts began by a new permit", n)
	}
}

// TestPermitGoesBack checks that the owner of a queue with a rate of groups gets back a permit that no consumer asks
// for any more.
func TestPermitGoesBack(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{GroupPerSecond: 40})
	lane := groupLane("g")
	lane.Destination = ""
	w.due(lane, 5)
	w.ask(lane.Receiver(), 1)
	w.entry(true)
	w.answer(2)
	w.entry(true)
	w.ask(lane.Receiver(), 0)
	w.entry(true)
	w.answer(0)
	w.entry(true)
	if ask := w.asks[testQueue]; ask == nil || len(ask.Unused) != 1 || ask.Unused[0] != (groups.Want{Group: "g", Permits: 1}) {
		t.Errorf("asks %+v, under way are %v", ask, w.running)
	}
}

// TestGroupsShareByWeight checks that the groups of a fair queue begin attempts in proportion to their weights,
// regardless of the order in which their tasks came.
func TestGroupsShareByWeight(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{
		Fair: true, MaxInFlight: 1, Target: testTarget, GroupWeights: []*fsmpb.GroupWeight{{Group: "c", Weight: 3}},
	})
	for i, group := range []string{"a", "b", "c", ""} {
		w.due(groupLane(group), 2000)
		w.entry(true)
		w.came += int64(i)
	}
	for range 1200 {
		w.next()
	}
	for group, weight := range map[string]int{"a": 1, "b": 1, "c": 3, "": 1} {
		if got, want := w.served[groupLane(group)], 1200*weight/6; got < want-20 || got > want+20 {
			t.Errorf("group %q began %d attempts, want %d", group, got, want)
		}
	}
}

// TestPrioritiesComeFirst checks that a limited queue begins the tasks of better priorities first, over all its groups
// and receivers.
func TestPrioritiesComeFirst(t *testing.T) {
	w := newWorld(t, 100)
	w.policy(testQueue, &fsmpb.QueuePolicy{MaxInFlight: 1, Target: testTarget})
	var lanes []task.Lane
	for i, priority := range []int{3, 5, 1, 2, 4} {
		l := groupLane(fmt.Sprint("g", i%2))
		l.Destination = fmt.Sprint("receiver", i)
		w.due(l, 3)
		w.entry(true)
		line := w.line(l)
		line.Waiting = [task.LastPriority]int32{}
		line.Waiting[priority-1] = int32(line.Ready)
		w.planner.Applied(w.now, Entry{Proposed: true, Lanes: []task.LaneLoad{line.LaneLoad}})
		lanes = append(lanes, l)
	}
	var order []task.Lane
	for range 15 {
		order = append(order, w.next())
	}
	for i, n := range []int{2, 3, 0, 4, 1} {
		for j := range 3 {
			if got := order[3*i+j]; got != lanes[n] {
				t.Errorf("attempt %d is of %v, want %v", 3*i+j, got, lanes[n])
			}
		}
	}
}
