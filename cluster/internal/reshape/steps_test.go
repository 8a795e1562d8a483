package reshape

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// world is a shard of which every step takes effect at once.
type world struct {
	t      rapid.TB
	record *clusterpb.Shard
	group  *clusterpb.Membership
	down   map[string]bool
	behind map[string]int // looks until a new member has caught up
}

func newWorld(t rapid.TB, replicas, target []string) *world {
	w := &world{
		t: t, record: &clusterpb.Shard{Id: 3, Replicas: replicas, Target: target, Preferred: target[0]},
		group: &clusterpb.Membership{Term: 7, Leader: replicas[0]}, down: map[string]bool{}, behind: map[string]int{},
	}
	for _, node := range replicas {
		w.group.Members = append(w.group.Members, &clusterpb.Member{Node: node, Voter: true})
	}
	return w
}

func (w *world) look() Shard {
	for _, m := range w.group.Members {
		if w.down[m.Node] {
			m.SilenceMs = -1
		}
	}
	return Shard{
		Record: w.record, Group: w.group,
		CaughtUp: func(node string) bool {
			w.behind[node]--
			return w.behind[node] < 0 && !w.down[node]
		},
		Well:   func(node string) bool { return !w.down[node] },
		MayAdd: func(string) string { return "" },
	}
}

// take makes a step.
func (w *world) take(s Step) {
	switch {
	case s.Assign != nil:
		if s.Assign.Revision != w.record.Revision {
			w.t.Fatalf("%v is based on another revision than %v", s.Assign, w.record)
		}
		w.record = proto.CloneOf(w.record)
		w.record.Revision++
		if w.record.Joined == nil {
			w.record.Joined = make(map[string]uint64)
		}
		for _, node := range s.Assign.Replicas {
			if !slices.Contains(w.record.Replicas, node) {
				w.record.Joined[node] = w.record.Revision
			}
		}
		w.record.Replicas = s.Assign.Replicas
	case s.Settle != nil:
		w.record = proto.CloneOf(w.record)
		w.record.Target = nil
	case s.Change != nil:
		w.group = proto.CloneOf(w.group)
		w.make(s.Change)
	}
}

func (w *world) make(call *clusterpb.MembersCall) {
	is := func(id string) func(*clusterpb.Member) bool {
		return func(m *clusterpb.Member) bool { return m.Node == id }
	}
	switch c := call.Change.(type) {
	case *clusterpb.MembersCall_AddNonvoter:
		if !slices.Contains(w.record.Replicas, c.AddNonvoter) {
			w.t.Fatalf("node %s joins without a replica", c.AddNonvoter)
		}
		w.group.Members = append(w.group.Members, &clusterpb.Member{Node: c.AddNonvoter})
	case *clusterpb.MembersCall_AddVoter:
		w.group.Members[slices.IndexFunc(w.group.Members, is(c.AddVoter))].Voter = true
	case *clusterpb.MembersCall_Remove:
		if c.Remove == w.group.Leader {
			w.t.Fatal("the leader is removed")
		}
		w.group.Members = slices.DeleteFunc(w.group.Members, is(c.Remove))
	case *clusterpb.MembersCall_Transfer:
		if at := slices.IndexFunc(w.group.Members, is(c.Transfer)); at < 0 || !w.group.Members[at].Voter {
			w.t.Fatalf("node %s leads without a vote", c.Transfer)
		}
		w.group.Leader = c.Transfer
		w.group.Term++
	}
}

func (w *world) voters() (all, up []string) {
	for _, m := range w.group.Members {
		if m.Voter {
			all = append(all, m.Node)
			if !w.down[m.Node] {
				up = append(up, m.Node)
			}
		}
	}
	return all, up
}

func (w *world) done() bool {
	all, _ := w.voters()
	slices.Sort(all)
	return len(w.record.Target) == 0 && len(all) == len(w.group.Members) && slices.Equal(all, w.record.Replicas)
}

func someNodes(t *rapid.T, label string, most int) []string {
	var all []string
	for i := range 7 {
		all = append(all, fmt.Sprint("node-", i))
	}
	some := rapid.Permutation(all).Draw(t, label)[:rapid.IntRange(1, most).Draw(t, label+" count")]
	slices.Sort(some)
	return some
}

// TestEveryTargetIsReached walks from any replicas to any target, with a lost node among the replicas, a target that
// changes on the way, and members that take a while to catch up. At every moment a majority of the voters is up, and
// the shard has as many voters up as at the start, until those of the target are there.
func TestEveryTargetIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas, target := someNodes(t, "replicas", 5), someNodes(t, "target", 5)
		w := newWorld(t, replicas, target)
		if len(replicas) >= 3 {
			lost := rapid.SampledFrom(replicas[1:]).Draw(t, "lost")
			w.down[lost] = !slices.Contains(target, lost)
		}
		_, atStart := w.voters()
		least := min(len(atStart), len(target))
		turn := rapid.IntRange(0, 12).Draw(t, "turn")
		for i := 0; !w.done(); i++ {
			if i == turn {
				w.retarget(t)
				least = min(least, len(w.record.Target))
			}
			if i > 200 {
				t.Fatalf("no end: %v, %v", w.record, w.group)
			}
			w.step(t, least)
		}
	})
}

// retarget changes the target on the way, to nodes that are up.
func (w *world) retarget(t *rapid.T) {
	next := slices.DeleteFunc(someNodes(t, "next target", 5), func(node string) bool { return w.down[node] })
	if len(next) == 0 {
		next = []string{w.group.Leader}
	}
	w.record = proto.CloneOf(w.record)
	w.record.Target, w.record.Preferred = next, next[0]
}

func (w *world) step(t *rapid.T, least int) {
	step, _ := Next(w.look())
	if step.Change.GetAddNonvoter() != "" {
		w.behind[step.Change.GetAddNonvoter()] = rapid.IntRange(0, 3).Draw(t, "behind")
	}
	w.take(step)
	all, up := w.voters()
	if len(up) <= len(all)/2 || len(up) < least {
		t.Fatalf("voters %v, of which %v are up; %d were up at first", all, up, least)
	}
}

// TestFaultyReplicaIsReplaced checks the steps by which the faulty replica of the leader is replaced by a copy on the
// same node.
func TestFaultyReplicaIsReplaced(t *testing.T) {
	w := newWorld(t, []string{"a", "b", "c"}, []string{"a", "b", "c"})
	w.record.Mending = "a"
	var steps []string
	for range 7 {
		step, _ := Next(w.look())
		steps = append(steps, step.String())
		w.take(step)
	}
	want := []string{
		"node b gets the leadership", "node a is removed", "replicas on [b c]", "replicas on [a b c]", "node a gets the log",
		"node a gets a vote", "the target is reached",
	}
	assert.EqualSlices(t, steps, want)
}

// TestFaultyReplicaOfABrokenGroupStays checks that the leadership goes to a voter only.
func TestFaultyReplicaOfABrokenGroupStays(t *testing.T) {
	w := newWorld(t, []string{"a", "b", "c"}, []string{"a", "b", "c"})
	w.record.Mending = "a"
	w.group.Members[1].Voter, w.down["c"] = false, true
	if step, waits := Next(w.look()); step != (Step{}) || waits == (Wait{}) {
		t.Errorf("%v", step)
	}
}

// TestWaits checks that a shard that cannot go on says why.
func TestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Shard)
		want  Wait
	}{
		"no leader": {func(s *Shard) { s.Group = nil }, Wait{
			clusterpb.MoveWait_MOVE_WAIT_NO_LEADER, "shard 3 has no leader that answers",
		}},
		"no room": {func(s *Shard) { s.MayAdd = func(string) string { return "two moves are under way" } }, Wait{
			clusterpb.MoveWait_MOVE_WAIT_TURN, "two moves are under way",
		}},
		"not behind": {func(s *Shard) { s.Record.Target = nil }, Wait{}},
		"behind": {func(s *Shard) {
			s.Record.Replicas = append(s.Record.Replicas, "d")
			s.Group.Members = append(s.Group.Members, &clusterpb.Member{Node: "d", Lag: 9, SilenceMs: 3})
			s.CaughtUp = func(string) bool { return false }
		}, Wait{clusterpb.MoveWait_MOVE_WAIT_COPY, "node d has not caught up with shard 3: it lacks 9 log entries"}},
		"silent": {func(s *Shard) {
			s.Record.Replicas = append(s.Record.Replicas, "d")
			s.Group.Members = append(s.Group.Members, &clusterpb.Member{Node: "d", SilenceMs: -1})
			s.CaughtUp = func(string) bool { return false }
		}, Wait{clusterpb.MoveWait_MOVE_WAIT_NODE_SILENT, "node d does not answer the leader of shard 3"}},
		"no heir": {func(s *Shard) {
			s.Record.Target, s.Well = []string{"b"}, func(string) bool { return false }
		}, Wait{clusterpb.MoveWait_MOVE_WAIT_NO_HEIR, "no node of shard 3's target is fit to lead"}},
	} {
		s := newWorld(t, []string{"a", "b", "c"}, []string{"a", "b", "d"}).look()
		c.spoil(&s)
		if step, waits := Next(s); step != (Step{}) || waits != c.want {
			t.Errorf("%s: %v, waits for %v", name, step, waits)
		}
	}
}

// TestLostNodeIsRemovedFirst checks that of two nodes to remove the silent one goes first.
func TestLostNodeIsRemovedFirst(t *testing.T) {
	w := newWorld(t, []string{"a", "b", "c"}, []string{"a"})
	w.group.Members[1].SilenceMs, w.group.Members[2].SilenceMs = 5, -1
	step, _ := Next(w.look())
	assert.Equal(t, step.Change.GetRemove(), "c", "%v", step)
}
