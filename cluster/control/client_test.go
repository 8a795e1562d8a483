package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// distant is the way to a leader whose answers may be lost.
type distant struct {
	g      *Group
	answer func(n int, changed *clusterpb.ControlChanged, err error) (*clusterpb.ControlChanged, error)

	mu     sync.Mutex
	asked  int      // changes
	waited []string // nodes that were asked for versions
	dead   string   // node that does not seem alive
}

func (d *distant) Change(
	ctx context.Context, node string, change *clusterpb.ControlChange,
) (*clusterpb.ControlChanged, error) {
	if node != "a" {
		return nil, &task.NotLeaderError{Leader: "a"}
	}
	changed, err := d.g.Change(ctx, change)
	d.asked++
	if d.answer == nil {
		return changed, err
	}
	return d.answer(d.asked, changed, err)
}

func (d *distant) Await(_ context.Context, node string, versions *clusterpb.AwaitRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waited = append(d.waited, fmt.Sprint(node, " ", versions.Queues, " ", versions.Access))
	return nil
}

func (d *distant) Alive(node string) bool { return node != d.dead }

// follower returns the replica of a node b whose leader is node a.
func follower(t *testing.T) (*Replica, *distant) {
	t.Helper()
	dir := t.TempDir()
	leader, transport := replica(t, dir, "a", false, []string{"a"})
	t.Cleanup(func() { closeGroup(t, leader) })
	awaitSettled(t, leader)
	here, _ := replica(t, dir, "b", false, nil, transport)
	t.Cleanup(func() { closeGroup(t, here) })
	for _, id := range []string{"a", "b"} {
		assert.NoError(t, leader.Register(t.Context(), &clusterpb.Node{Id: id, CommandVersion: Version, Boot: 1}))
	}
	until(t, here, "known at the follower", func(s *clusterpb.ControlState) bool { return Node(s, "b") != nil })
	d := &distant{g: leader}
	r := NewReplica(ReplicaConfig{Node: "b", Nodes: d})
	r.Set(here)
	return r, d
}

// awaitSettled waits until a new group of one node has taken all steps, and lets nodes ask for changes.
func awaitSettled(t *testing.T, g *Group) {
	t.Helper()
	until(t, g, "settled", func(s *clusterpb.ControlState) bool {
		return placed(s) && len(s.ReceiptKey) > 0 && s.Replication > 0
	})
	synctest.Wait()
}

// lost is the loss of the first answer.
func lost(n int, changed *clusterpb.ControlChanged, err error) (*clusterpb.ControlChanged, error) {
	if n == 1 {
		return nil, fmt.Errorf("%w: the answer is lost", task.ErrUnknown)
	}
	return changed, err
}

// TestRepeatedChangesAreToldAsDone checks that a change whose first try was carried out, and whose answer was lost, is
// told as made by that try.
func TestRepeatedChangesAreToldAsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := follower(t)
		_, err := r.Change(t.Context(), asking(newKey("k")))
		assert.NoError(t, err)
		d.answer = lost
		for name, c := range map[string]struct {
			entry   *clusterpb.ControlEntry
			existed bool
		}{
			"a new namespace": {namespace("port"), false},
			"the default one": {namespace("default"), true},
			"a key":           {revoked("k"), true},
			"an unknown key":  {revoked("other"), false},
		} {
			d.asked = 0
			changed, err := r.Change(t.Context(), asking(c.entry))
			if err != nil || changed.Existed != c.existed || d.asked != 2 {
				t.Errorf("%s: %v, %v, after %d tries", name, changed, err, d.asked)
			}
		}
	})
}

// TestUnknownOutcomesStayUnknown checks that a change which is not repeated, or whose repeats do not get through, is not
// told as certainly undone.
func TestUnknownOutcomesStayUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := follower(t)
		d.answer = lost
		if _, err := r.Change(t.Context(), asking(setQueue(policy("q", 1)))); !errors.Is(err, task.ErrUnknown) || d.asked != 1 {
			t.Errorf("a policy: %v, after %d tries", err, d.asked)
		}
		d.asked = 0
		d.answer = func(n int, changed *clusterpb.ControlChanged, err error) (*clusterpb.ControlChanged, error) {
			if n > 1 {
				return nil, task.ErrNotProposed
			}
			return lost(n, changed, err)
		}
		began := time.Now()
		_, err := r.Change(t.Context(), asking(namespace("port")))
		if !errors.Is(err, task.ErrUnknown) || errors.Is(err, task.ErrNotProposed) || d.asked < 3 {
			t.Errorf("a namespace: %v, after %d tries", err, d.asked)
		}
		if passed := time.Since(began); passed != changePatience { // of the bubble's clock
			t.Errorf("it ended after %v", passed)
		}
	})
}

// TestRefusedRepeatsAreUnknown checks that a change whose first try was carried out, and whose repeat is refused, is not
// told as undone.
func TestRefusedRepeatsAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := follower(t)
		deletion := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_DeleteNamespace{
			DeleteNamespace: &clusterpb.DeleteNamespace{Name: "port", Operation: "op"},
		}}
		d.answer = func(n int, changed *clusterpb.ControlChanged, err error) (*clusterpb.ControlChanged, error) {
			if n == 1 {
				_, err := d.g.Change(t.Context(), asking(deletion))
				assert.Equal(t, err, nil)
			}
			return lost(n, changed, err)
		}
		var impossible *task.ImpossibleError
		_, err := r.Change(t.Context(), asking(namespace("port")))
		if !errors.Is(err, task.ErrUnknown) || errors.As(err, &impossible) || d.asked != 2 {
			t.Errorf("%v, after %d tries", err, d.asked)
		}
	})
}

// TestChangesWaitForTheNodes checks which nodes are asked whether a change is in force there.
func TestChangesWaitForTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := follower(t)
		dead := &clusterpb.Node{Id: "c", CommandVersion: Version, Boot: 1}
		assert.NoError(t, d.g.Register(t.Context(), dead))
		d.dead = "c"
		stale := setQueue(policy("q", 9))
		stale.GetSetQueue().Expected = proto.Uint64(77)
		for _, c := range []struct {
			entry *clusterpb.ControlEntry
			want  string
		}{
			{setQueue(policy("q", 1)), "[a 1 0 b 1 0]"},
			{stale, "[]"},
			{newKey("k"), "[a 0 1 b 0 1]"},
			{newToken("t", time.Hour), "[]"},
		} {
			d.waited = nil
			changed, err := r.Change(t.Context(), asking(c.entry))
			assert.NoError(t, err)
			slices.Sort(d.waited)
			assert.Equal(t, fmt.Sprint(d.waited), c.want, "%v: waited for", changed)
			if _, applied := r.Group().machine.at(); applied < changed.Index || changed.Index == 0 {
				t.Errorf("%v: this node has applied entry %d only", changed, applied)
			}
		}
	})
}

// TestImpossibleChanges checks that the leader's reason arrives as an error, and is no reason to ask again.
func TestImpossibleChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, d := follower(t)
		var impossible *task.ImpossibleError
		_, err := r.Change(t.Context(), asking(beginBulk("op", "none")))
		if !errors.As(err, &impossible) || impossible.Reason != "namespace none does not exist, or is being deleted" || d.asked != 1 {
			t.Errorf("%v, after %d tries", err, d.asked)
		}
		old := &clusterpb.Node{Id: "z", Name: "old", CommandVersion: Version - 1, Boot: 1}
		_, err = r.Change(t.Context(), Registration(old, ""))
		if !errors.As(err, &impossible) || !strings.Contains(impossible.Reason, "give the node a newer build") {
			t.Errorf("a node with an older build: %v", err)
		}
	})
}

// TestOnlySomeChangesCanBeAsked checks that no node can ask for the entries of the leader's own loops.
func TestOnlySomeChangesCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := single(t, idleShards{})
		awaitSettled(t, g)
		before := g.State()
		for name, entry := range map[string]*clusterpb.ControlEntry{
			"none":  nil,
			"empty": {},
			"a placement": {Op: &clusterpb.ControlEntry_Assign{Assign: &clusterpb.Assign{
				Shard: 1, Revision: before.Shards[0].Revision, Replicas: []string{"a"},
			}}},
			"the end of an operation": {Op: &clusterpb.ControlEntry_End{End: &clusterpb.End{Id: "op"}}},
			"an outcome":              {Op: &clusterpb.ControlEntry_CountBulk{CountBulk: &clusterpb.CountBulk{Id: "op"}}},
			"a version":               raise(Version).entry,
		} {
			_, err := g.Change(t.Context(), asking(entry))
			assert.ErrorIs(t, err, task.ErrNotProposed, "%s", name)
		}
		for name, entry := range map[string]*clusterpb.ControlEntry{
			"a policy":    {Op: &clusterpb.ControlEntry_SetQueue{}},
			"a calendar":  {Op: &clusterpb.ControlEntry_SetCalendar{}},
			"a key":       {Op: &clusterpb.ControlEntry_AddKey{}},
			"a deletion":  {Op: &clusterpb.ControlEntry_DeleteNamespace{}},
			"a bulk":      {Op: &clusterpb.ControlEntry_BeginBulk{}},
			"a token":     {Op: &clusterpb.ControlEntry_AddJoinToken{}},
			"a node":      {Op: &clusterpb.ControlEntry_Register{}},
			"a record":    {Op: &clusterpb.ControlEntry_SetBackups{}},
			"a namespace": {Op: &clusterpb.ControlEntry_SetNamespace{}},
			"an order":    {Op: &clusterpb.ControlEntry_Begin{}},
		} {
			if changed, err := g.Change(t.Context(), asking(entry)); err == nil && changed.Impossible == "" {
				t.Errorf("%s without its parts: %v", name, changed)
			}
		}
		assert.Equal(t, g.State(), before, "the state")
	})
}

// TestChangesNeedACluster checks that no node changes anything before it is in a cluster.
func TestChangesNeedACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := NewReplica(ReplicaConfig{Node: "a"}).Change(t.Context(), asking(newKey("k")))
		assert.ErrorIs(t, err, task.ErrNotProposed)
	})
}

// TestWaivedNode checks that an operation by which a lost node leaves stops waiting for the node's build.
func TestWaivedNode(t *testing.T) {
	s := formed(t)
	s = applied(t, s, register("gone", 1, 2))
	order := begin(&clusterpb.Operation{Id: "op", Kind: leave, Node: "gone"})
	order.GetBegin().Waive = 9
	after := applied(t, s, order)
	if Node(after, "gone").CommandVersion != 9 || Node(after, "b").CommandVersion != 2 || Node(s, "gone").CommandVersion != 2 {
		t.Errorf("the nodes are %v", after.Nodes)
	}
	returned := applied(t, after, register("gone", 2, 2))
	again := applied(t, returned, order)
	assert.Equal(t, Node(again, "gone").CommandVersion, 2, "a repeat waives the node once more: %v", again.Nodes)
}
