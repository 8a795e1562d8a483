package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/tenants"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

func keySpec(namespace string) tenants.KeySpec {
	return tenants.KeySpec{Name: "ci", Grants: []access.Grant{{Role: access.Schedule, Namespace: namespace}}}
}

// judged returns the error of a call with a key at a node.
func judged(t *testing.T, n *cluster.Node, key string) error {
	t.Helper()
	authority, err := access.New(access.Config{Source: n.Tenants()})
	assert.NoError(t, err)
	_, err = authority.Caller(t.Context(), access.Credentials{Authorization: "Bearer " + key})
	return err
}

// mustHold checks that every running node judges a key alike. A call that changes a key answers when all nodes that it
// reaches know the change.
func mustHold(t *testing.T, c *clustertest.Cluster, what, key string, valid bool) {
	t.Helper()
	for _, n := range c.Nodes() {
		if err := judged(t, n, key); (err == nil) != valid {
			t.Errorf("%s: node %s: %v", what, n.ID(), err)
		}
	}
}

// TestKeysHoldOnEveryNode makes, rotates and revokes keys at each node in turn. Every node knows the change at
// the answer.
func TestKeysHoldOnEveryNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 1 })
		if c.Node(0).Tenants().KeysInForce() || judged(t, c.Node(0), "") != nil {
			t.Error("keys are in force in a new cluster")
		}
		for i, n := range c.Nodes() {
			text, made, err := n.Tenants().NewKey(t.Context(), keySpec("default"))
			assert.NoError(t, err)
			assert.Equal(t, judged(t, n, text), nil, "the answering node")
			mustHold(t, c, "the key is valid", text, true)
			second, rotated, existed, err := n.Tenants().RotateKey(t.Context(), made.ID, time.Hour)
			if err != nil || !existed || len(rotated.Secrets) != 2 {
				t.Fatalf("rotated: %+v, %v, %v", rotated, existed, err)
			}
			mustHold(t, c, "the second text is valid", second, true)
			mustHold(t, c, "the first text is valid for the overlap", text, true)
			other := c.Node((i + 1) % 3)
			if existed, err := other.Tenants().RemoveKey(t.Context(), made.ID); err != nil || !existed {
				t.Fatalf("revoked: %v, %v", existed, err)
			}
			assert.Error(t, judged(t, other, second), "the answering node lets the revoked key in")
			mustHold(t, c, "the key is revoked", second, false)
			mustHold(t, c, "the first text is revoked, too", text, false)
		}
		for _, n := range c.Nodes() {
			if !n.Tenants().KeysInForce() || judged(t, n, "") == nil {
				t.Error("the removal of the last key has opened a node")
			}
		}
		if existed, err := c.Node(0).Tenants().RemoveKey(t.Context(), "none"); err != nil || existed {
			t.Errorf("a key that is not there: %v, %v", existed, err)
		}
		var field *task.FieldError
		for i, n := range c.Nodes() {
			if _, _, err := n.Tenants().NewKey(t.Context(), keySpec("missing")); !errors.As(err, &field) ||
				field.Field != "grants[0].namespace" {
				t.Errorf("node %d: a key for a namespace that is not there: %v", i, err)
			}
		}
	})
}

// TestKeysOutliveNodes checks keys after a failover, on a node that joins, and on one that starts without a quorum.
func TestKeysOutliveNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 1 })
		key := func(n *cluster.Node) (string, string) {
			t.Helper()
			text, made, err := n.Tenants().NewKey(t.Context(), keySpec(access.AllNamespaces))
			assert.NoError(t, err)
			return text, made.ID
		}
		kept, _ := key(c.Node(0))
		gone, goneID := key(c.Node(1))
		_, err := c.Node(2).Tenants().RemoveKey(t.Context(), goneID)
		assert.NoError(t, err)
		for _, down := range []int{0, 1, 2} {
			c.Crash(down)
			other := c.Node((down + 1) % 3)
			text, _ := key(other)
			mustHold(t, c, "keys are made without a node", text, true)
			mustHold(t, c, "a revoked key stays revoked", gone, false)
			c.Start(down)
			c.WaitReady()
			mustHold(t, c, "the node is back", text, true)
		}
		joined := c.Add()
		n := c.Start(joined)
		c.Until("the new node knows the keys", func() error {
			assert.Error(t, judged(t, n, ""), "the new node lets a caller in without a key")
			return judged(t, n, kept)
		})
		c.WaitReady()
		for i := range 4 {
			c.Stop(i)
		}
		alone := c.Start(1)
		assert.Equal(t, judged(t, alone, kept), nil, "without a quorum")
		if judged(t, alone, gone) == nil || judged(t, alone, "") == nil {
			t.Error("a node without a quorum lets in a revoked key, or a caller without one")
		}
		for _, i := range []int{0, 2, 3} {
			c.Start(i)
		}
		c.WaitReady()
	})
}

// TestNamespaceLeavesRoom checks that a namespace gets at most half of a cluster's policies and keys beside another
// one, and that the other one gets some.
func TestNamespaceLeavesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, nil)
		n := c.Node(0)
		putNamespace(t, n, "town", quota.Limits{})
		put := func(namespace string, i int) error {
			_, err := n.Policies().PutQueue(t.Context(), &fsmpb.QueuePolicy{Namespace: namespace, Queue: fmt.Sprint("q", i)})
			return err
		}
		newKey := func(namespace string, i int) error {
			_, _, err := n.Tenants().NewKey(t.Context(), tenants.KeySpec{
				Name: fmt.Sprint("k", i), Grants: []access.Grant{{Role: access.Read, Namespace: namespace}},
			})
			return err
		}
		for _, of := range []struct {
			share int
			add   func(namespace string, i int) error
			limit string
		}{{control.MaxQueues / 2, put, "2048 of one namespace"}, {access.MaxKeys / 2, newKey, "500 of one namespace"}} {
			var next atomic.Int64
			var callers sync.WaitGroup
			for range 32 {
				callers.Go(func() {
					for i := int(next.Add(1)); i <= of.share; i = int(next.Add(1)) {
						assert.Equal(t, of.add("town", i), nil, "number %d", i)
					}
				})
			}
			callers.Wait()
			if err := of.add("town", of.share+1); err == nil || !strings.Contains(err.Error(), of.limit) {
				t.Errorf("one too many: %v", err)
			}
			assert.Equal(t, of.add("default", 0), nil, "of another namespace")
		}
		assert.Equal(t, put("town", 7), nil, "a policy that is there")
	})
}

func scheduleIn(namespace, id, queue string, delay time.Duration) *fsmpb.Command {
	now := time.Now()
	return &fsmpb.Command{Namespace: namespace, Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Queue: queue}, FireAtMs: now.Add(delay).UnixMilli(), ReceivedAtMs: now.UnixMilli(),
	}}}
}

func listed(t *testing.T, n *cluster.Node, namespace string) (ids []string) {
	t.Helper()
	q := &fsmpb.ListQuery{Namespace: namespace, Limit: 1000}
	for more := true; more; {
		page, err := n.List(t.Context(), q, false)
		assert.NoError(t, err)
		for _, found := range page.Tasks {
			ids = append(ids, found.Id)
		}
		more, q.Slot, q.AfterId = page.More, page.Slot, page.AfterId
	}
	slices.Sort(ids)
	return ids
}

// TestNamespacesAreDeleted deletes a namespace while nodes crash, and checks that nothing of it is left, nothing else
// has changed, and the name is free again.
func TestNamespacesAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const tasks = 600
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) {
			cfg.Shards, cfg.Calm = 3, 2*time.Second
		})
		n := c.Node(0)
		for _, name := range []string{"shop", "town"} {
			_, created, err := n.Tenants().PutNamespace(t.Context(), name, quota.Limits{MaxQueues: 9})
			if err != nil || !created {
				t.Fatal(name, created, err)
			}
			if _, err := n.Policies().PutQueue(t.Context(), &fsmpb.QueuePolicy{Namespace: name, Queue: "held", Paused: true}); err != nil {
				t.Fatal(err)
			}
		}
		key, made, err := n.Tenants().NewKey(t.Context(), keySpec("shop"))
		assert.NoError(t, err)
		var cmds []*fsmpb.Command
		for i := range tasks {
			id := fmt.Sprint("t", i)
			cmds = append(cmds, scheduleIn("shop", id, []string{"held", "later"}[i%2], time.Duration(i%2)*time.Hour))
		}
		cmds = append(cmds, scheduleIn("town", "t1", "held", 0), scheduleIn("", "t1", "q", time.Hour))
		for i := range 50 {
			cmds = append(cmds, &fsmpb.Command{
				Namespace: "shop", Id: fmt.Sprint("t", i), Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}},
			})
		}
		for _, r := range n.Do(t.Context(), cmds) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		op, err := c.Node(1).Tenants().DeleteNamespace(t.Context(), "shop")
		if err != nil || op.GetNamespace() != "shop" || op.Total != tasks {
			t.Fatalf("begun: %v, %v", op, err)
		}
		again, err := c.Node(2).Tenants().DeleteNamespace(t.Context(), "shop")
		if err != nil || again.GetId() != op.Id {
			t.Errorf("begun again: %v, %v", again, err)
		}
		var field *task.FieldError
		if r := n.Do(t.Context(), []*fsmpb.Command{scheduleIn("shop", "new", "q", time.Hour)})[0]; !errors.As(r.Err, &field) {
			t.Errorf("new work: %v", r.Err)
		}
		policy := &fsmpb.QueuePolicy{Namespace: "shop", Queue: "new", Paused: true}
		if _, err := n.Policies().PutQueue(t.Context(), policy); !errors.As(err, &field) {
			t.Errorf("a new policy: %v", err)
		}
		if ns, exists := n.Tenants().Namespace("shop"); !exists || ns.State != "deleting" || n.Tenants().NamespaceActive("shop") {
			t.Errorf("the namespace: %+v", ns)
		}
		for _, down := range []int{0, 1, 2} { // the driver is among them
			c.Crash(down)
			c.Start(down)
			c.WaitReady()
		}
		done := func(n *cluster.Node) error {
			if got, _ := n.Operations().Operation(op.Id); got.GetState() != clusterpb.OperationState_OPERATION_STATE_DONE {
				return fmt.Errorf("the operation: %v", got)
			}
			if _, exists := n.Tenants().Namespace("shop"); exists { // known a moment after the operation
				return errors.New("the namespace is there")
			}
			return nil
		}
		c.Until("the namespace is deleted", func() error {
			return errors.Join(done(c.Node(0)), done(c.Node(1)), done(c.Node(2)))
		})
		n = c.Node(1)
		if left := listed(t, n, "shop"); len(left) > 0 {
			t.Errorf("%d tasks are left, as %s", len(left), left[0])
		}
		if queues, err := n.Queues(t.Context(), "shop"); err != nil || len(queues) > 0 {
			t.Errorf("queues: %v, %v", queues, err)
		}
		if town, all := listed(t, n, "town"), listed(t, n, ""); !slices.Equal(town, []string{"t1"}) ||
			!slices.Equal(all, []string{"t1"}) {
			t.Errorf("of others: %v and %v", town, all)
		}
		if _, exists := n.Tenants().Key(made.ID); exists || judged(t, n, key) == nil {
			t.Error("a key of the namespace has outlived it")
		}
		if _, created, err := n.Tenants().PutNamespace(t.Context(), "shop", quota.Limits{}); err != nil || !created {
			t.Fatalf("made again: %v, %v", created, err)
		}
		if r := n.Do(t.Context(), []*fsmpb.Command{scheduleIn("shop", "t1", "q", time.Hour)})[0]; r.Err != nil ||
			r.Result.GetCode() != fsmpb.Code_CODE_CREATED {
			t.Errorf("a task in the new namespace: %v", r)
		}
	})
}

// TestDeletionAwaitsSilentNodes checks that a namespace does not end before every node refuses new work, and that the
// operation names the node.
func TestDeletionAwaitsSilentNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards, cfg.Calm = 1, 100*time.Millisecond })
		n := c.Node(0)
		if _, _, err := n.Tenants().PutNamespace(t.Context(), "shop", quota.Limits{}); err != nil {
			t.Fatal(err)
		}
		mustDo(t, n, scheduleIn("shop", "a", "q", time.Hour))
		c.Stop(2)
		op, err := n.Tenants().DeleteNamespace(t.Context(), "shop")
		assert.NoError(t, err)
		c.Until("the operation waits for the node", func() error {
			for _, o := range n.View(context.Background()).Operations {
				if o.ID == op.Id && o.Done == 1 && len(o.Waits) == 1 && strings.Contains(o.Waits[0], "n2") {
					return nil
				}
			}
			return fmt.Errorf("%+v", n.View(context.Background()).Operations)
		})
		if left := listed(t, n, "shop"); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
		got, _ := n.Operations().Operation(op.Id)
		assert.Equal(t, got.EndedMs, 0, "ended without the node: %v", got)
		c.Start(2)
		c.Until("the namespace is deleted", func() error {
			if got, _ := n.Operations().Operation(op.Id); got.EndedMs == 0 {
				return errors.New("it goes on")
			}
			return nil
		})
		if _, err := n.Tenants().DeleteNamespace(t.Context(), "default"); err == nil {
			t.Error("the default namespace is deleted")
		}
		if op, err := n.Tenants().DeleteNamespace(t.Context(), "shop"); op != nil || err != nil {
			t.Errorf("a namespace that is gone: %v, %v", op, err)
		}
	})
}
