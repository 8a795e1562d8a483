package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

// shaped is a cluster of which every step takes effect at once.
type shaped struct {
	t       *testing.T
	state   *clusterpb.ControlState
	members []raftgroup.Member
}

// newShaped returns a settled cluster that the nodes a, b and c formed, and that the others have joined.
func newShaped(t *testing.T, nodes ...string) *shaped {
	t.Helper()
	s := &shaped{t: t, state: &clusterpb.ControlState{}, members: []raftgroup.Member{voter("a"), voter("b"), voter("c")}}
	s.state, s.members = settle(t, s.state, s.members)
	for _, id := range nodes {
		s.state = mustApply(t, s.state, register(id, 1, Version))
	}
	s.settle()
	return s
}

// settle takes every step of the reconciler, and moves the shards to their targets, until all is as it should be.
func (s *shaped) settle() {
	s.t.Helper()
	for range 10 {
		before := s.state
		s.state, s.members = settle(s.t, s.state, s.members)
		s.arrive()
		if proto.Equal(before, s.state) {
			return
		}
	}
	s.t.Fatal("the cluster does not settle")
}

func (s *shaped) arrive() {
	s.t.Helper()
	for _, shard := range s.state.Shards {
		if len(shard.Target) == 0 {
			continue
		}
		for _, e := range []*clusterpb.ControlEntry{
			{Op: &clusterpb.ControlEntry_Assign{Assign: &clusterpb.Assign{
				Shard: shard.Id, Revision: shard.Revision, Replicas: shard.Target,
			}}},
			{Op: &clusterpb.ControlEntry_Retarget{Retarget: &clusterpb.Retarget{
				Shards: []*clusterpb.Shard{{Id: shard.Id}},
			}}},
		} {
			s.state = mustApply(s.t, s.state, e)
		}
	}
}

func (s *shaped) begin(id string, kind clusterpb.OperationKind, node string) {
	s.t.Helper()
	s.state = mustApply(s.t, s.state, begin(&clusterpb.Operation{Id: id, Kind: kind, Node: node, BeganMs: 1}))
}

func begin(op *clusterpb.Operation) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Begin{Begin: &clusterpb.Begin{Operation: op}}}
}

// held returns the number of replicas on a node.
func (s *shaped) held(node string) int {
	held := 0
	for _, shard := range s.state.Shards {
		if slices.Contains(shard.Replicas, node) {
			held++
		}
	}
	return held
}

func (s *shaped) mustBe(id string, want clusterpb.OperationState) {
	s.t.Helper()
	if got := FindOperation(s.state, id); got.GetState() != want || want > 0 && got.EndedMs == 0 {
		s.t.Errorf("operation %v, want %v", got, want)
	}
}

const (
	running = clusterpb.OperationState_OPERATION_STATE_RUNNING
	done    = clusterpb.OperationState_OPERATION_STATE_DONE
	stopped = clusterpb.OperationState_OPERATION_STATE_STOPPED

	drain  = clusterpb.OperationKind_OPERATION_KIND_DRAIN
	resume = clusterpb.OperationKind_OPERATION_KIND_RESUME
	leave  = clusterpb.OperationKind_OPERATION_KIND_REMOVE
	rest   = clusterpb.OperationKind_OPERATION_KIND_REST
)

// TestDrainedNodeHoldsNothing drains a node that votes in the control group, and resumes it.
func TestDrainedNodeHoldsNothing(t *testing.T) {
	s := newShaped(t, "a", "b", "c", "d")
	s.begin("1", drain, "b")
	s.mustBe("1", running)
	s.settle()
	s.mustBe("1", done)
	if s.held("b") != 0 || slices.Contains(s.members, voter("b")) || !slices.Contains(s.members, voter("d")) {
		t.Errorf("%d replicas on b, the control group has %v", s.held("b"), s.members)
	}
	s.begin("2", resume, "b")
	s.settle()
	s.mustBe("2", done)
	assert.Equal(t, s.held("b"), 9, "replicas on b after it works again")
}

// TestRemovedNodeStaysAway removes a node, and refuses its next registration.
func TestRemovedNodeStaysAway(t *testing.T) {
	s := newShaped(t, "a", "b", "c", "d")
	s.begin("1", leave, "c")
	s.settle()
	s.mustBe("1", done)
	gone := func(m raftgroup.Member) bool { return m.NodeID == "c" }
	if Node(s.state, "c") != nil || s.held("c") != 0 || slices.ContainsFunc(s.members, gone) {
		t.Errorf("c is left in %v and %v", s.state, s.members)
	}
	_, _, err := apply(s.state, marshal(t, register("c", 9, Version)))
	assert.ErrorIs(t, err, ErrRemoved, "registered again")
}

// TestOperationsTakeEachOthersPlace checks that the last operation on a node is the one that counts.
func TestOperationsTakeEachOthersPlace(t *testing.T) {
	s := newShaped(t, "a", "b", "c", "d")
	s.begin("1", leave, "d")
	s.begin("1", drain, "d") // repeated after an unknown outcome
	s.begin("2", resume, "d")
	s.mustBe("1", stopped)
	s.settle()
	s.mustBe("2", done)
	if Node(s.state, "d") == nil || s.held("d") != 9 {
		t.Errorf("d is not as before: %v", s.state)
	}
}

// TestEqualOperationIsNotBegunTwice checks that a request changes nothing if an equal operation is under way.
func TestEqualOperationIsNotBegunTwice(t *testing.T) {
	s := newShaped(t, "a", "b", "c", "d")
	s.begin("1", leave, "d")
	s.begin("2", leave, "d")
	s.mustBe("1", running)
	if FindOperation(s.state, "2") != nil {
		t.Error("a second operation asks for the same")
	}
	s.settle()
	s.mustBe("1", done)
}

// TestRestingNodeKeepsItsReplicas checks that a resting node moves no replica, leads the control group no more, and
// ends the operation when it leads no shard.
func TestRestingNodeKeepsItsReplicas(t *testing.T) {
	s := newShaped(t, "a", "b", "c", "d")
	held := s.held("a")
	s.begin("1", rest, "a")
	next := func(self string, leads bool) step {
		t.Helper()
		l := lookAt(s.state, s.members)
		l.self, l.leads = self, func(node string) bool { return leads && node == "a" }
		got, err := l.next()
		assert.NoError(t, err)
		return got
	}
	if got := next("a", false); got.transfer != "b" && got.transfer != "c" {
		t.Errorf("the control group's leader rests, and does %+v", got)
	}
	got := next("b", true)
	assert.Equal(t, got.what, "", "the node leads a shard, and the next step is %+v", got)
	s.state = mustApply(t, s.state, next("b", false).entry)
	s.mustBe("1", done)
	if s.held("a") != held || s.state.Orders["a"] != clusterpb.NodeOrder_NODE_ORDER_REST {
		t.Errorf("%d replicas, were %d, order %v", s.held("a"), held, s.state.Orders["a"])
	}
}

// TestReplicationChanges takes the replicas of each shard from three to five and back.
func TestReplicationChanges(t *testing.T) {
	s := newShaped(t, "a", "b", "c", "d", "e")
	for i, want := range []uint32{5, 3} {
		op := &clusterpb.Operation{
			Id: fmt.Sprint(i), Kind: clusterpb.OperationKind_OPERATION_KIND_REPLICATION, Replication: want,
		}
		s.state = mustApply(t, s.state, begin(op))
		assert.Equal(t, ReplicasLeft(s.state, op), 24, "replicas left to move")
		s.settle()
		s.mustBe(op.Id, done)
		if got := len(s.state.Shards[7].Replicas); got != int(want) {
			t.Errorf("%d replicas, want %d", got, want)
		}
	}
}

// TestUnfitOperationsAreRefused checks the refusals of the log, for an operation that a leader did not judge.
func TestUnfitOperationsAreRefused(t *testing.T) {
	s := newShaped(t, "a", "b", "c")
	s.begin("drain", drain, "c")
	for name, e := range map[string]*clusterpb.ControlEntry{
		"no id":         begin(&clusterpb.Operation{Kind: drain, Node: "a"}),
		"stranger":      begin(&clusterpb.Operation{Id: "1", Kind: drain, Node: "x"}),
		"no kind":       begin(&clusterpb.Operation{Id: "1", Node: "a"}),
		"no factor":     begin(&clusterpb.Operation{Id: "1", Kind: clusterpb.OperationKind_OPERATION_KIND_REPLICATION}),
		"early removal": {Op: &clusterpb.ControlEntry_End{End: &clusterpb.End{Id: "leave"}}},
	} {
		state := s.state
		if name == "early removal" {
			state = mustApply(t, state, begin(&clusterpb.Operation{Id: "leave", Kind: leave, Node: "b"}))
		}
		if same, _, err := apply(state, marshal(t, e)); !errors.Is(err, ErrRefused) || !proto.Equal(same, state) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEndedOperationsAreForgotten checks that the state keeps a bounded number of operations, and all that are under
// way.
func TestEndedOperationsAreForgotten(t *testing.T) {
	s := newShaped(t, "a", "b", "c")
	s.begin("first", drain, "a")
	for i := range 2 * keptOperations {
		s.begin(fmt.Sprint(i), []clusterpb.OperationKind{drain, resume}[i%2], "b")
	}
	s.mustBe("first", running)
	if n := len(s.state.Operations); n > keptOperations+2 {
		t.Errorf("%d operations are kept", n)
	}
}

// TestImpossibleOperationsAreRefused checks that the leader refuses an operation that could not end, with the
// reason, and begins nothing for a preview.
func TestImpossibleOperationsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := &groups{random: rand.New(rand.NewPCG(1, 14)), members: make(map[uint32]*clusterpb.Membership)}
		g := single(t, shards)
		refused := func(op *clusterpb.Operation) {
			t.Helper()
			op.Id = "refused"
			var impossible *task.ImpossibleError
			if _, err := g.change(t.Context(), asking(begin(op))); !errors.As(err, &impossible) || impossible.Reason == "" {
				t.Errorf("%v: %v", op, err)
			}
		}
		factor := func(n uint32) *clusterpb.Operation {
			return &clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REPLICATION, Replication: n}
		}
		refused(&clusterpb.Operation{Kind: leave, Node: "a"})
		refused(&clusterpb.Operation{Kind: drain, Node: "b"})
		for _, n := range []uint32{0, 2, 3, 9} {
			refused(factor(n))
		}
		for _, id := range []string{"b", "c"} {
			assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: id, CommandVersion: Version, Boot: 1}))
		}
		preview := asking(begin(&clusterpb.Operation{Id: "preview", Kind: leave, Node: "a"}))
		preview.Preview = true
		changed, err := g.Change(t.Context(), preview)
		op, moves := changed.GetOperation(), changed.GetMoves()
		if err != nil || op.Total != 12 || len(moves) == 0 || moves[0].Shard != 1 || moves[0].Action != "add" || moves[0].Node != "b" {
			t.Errorf("preview: %v, %v, %v", op, moves, err)
		}
		if ops := g.State().Operations; len(ops) > 0 {
			t.Errorf("begun: %v", ops)
		}
	})
}
