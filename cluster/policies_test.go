package cluster_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
)

// mustPut stores a policy.
func mustPut(t testing.TB, n *cluster.Node, p *fsmpb.QueuePolicy) (created bool) {
	t.Helper()
	created, err := n.Policies().PutQueue(t.Context(), p)
	assert.NoError(t, err)
	return created
}

// hasPolicy returns an error unless the node knows this policy of its queue, or, for nil, that the queue has none.
func hasPolicy(ctx context.Context, n *cluster.Node, queue string, want *fsmpb.QueuePolicy) error {
	got, _, err := n.Queue(ctx, "", queue)
	if err != nil {
		return err
	}
	if want != nil {
		want = proto.CloneOf(want)
		want.Namespace, want.Version = task.DefaultNamespace, got.GetVersion()
	}
	if !proto.Equal(got, want) {
		return fmt.Errorf("the policy is %v, not %v", got, want)
	}
	return nil
}

func everywhere(t *testing.T, c *clustertest.Cluster, nodes int, queue string, want *fsmpb.QueuePolicy) {
	t.Helper()
	c.Until("all nodes know the policy", func() error {
		for i := range nodes {
			if err := hasPolicy(t.Context(), c.Node(i), queue, want); err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
		}
		return nil
	})
}

// auditOf is the API of a node that has an audit log and no more.
type auditOf struct {
	node  int
	fault error // of the log
}

func (auditOf) KeysEnd() time.Time              { return time.Time{} }
func (auditOf) IssuerFault() (time.Time, error) { return time.Time{}, nil }
func (a auditOf) AuditFault() error             { return a.fault }

func (a auditOf) Audit(_ context.Context, r *clusterpb.AuditRequest) (*clusterpb.AuditReply, error) {
	return &clusterpb.AuditReply{
		Next: fmt.Sprint(a.node, " after ", r.After), Lines: [][]byte{[]byte("{}")}, Lost: []uint64{2},
	}, nil
}

// TestQueuePolicies changes policies and counts queues through all nodes of a cluster.
func TestQueuePolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			cfg.API = auditOf{node: i}
		})
		testPutQueueWaits(t, c)
		testAuditOfAllNodes(t, c)
		testNoUpdateIsLost(t, c)
		testPolicyIsChecked(t, c)
		testQueuesAreCounted(t, c)
		testNamespaceIsCounted(t, c)
	})
}

// TestQueueLimits delivers tasks under the policies of their queues, also through restarts and the death of a lender.
func TestQueueLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &meter{takes: 2 * time.Millisecond}
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Deliver = m })
		c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(t.Context())) })
		testMaxInFlight(t, c, m)
		testMaxPerSecond(t, c, m)
		testTargetOfTheQueue(t, c, m)
		testPauseIsInForce(t, c, m)
		testPauseOutlivesARestart(t, c, m)
		testLenderDies(t, c, m)
	})
}

// TestPoliciesWhileNodesChange changes policies while nodes die, join and restart.
func TestPoliciesWhileNodesChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		logged := &assert.Log{}
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		testPoliciesWhileLeadersChange(t, c)
		testJoinerKnowsPolicies(t, c)
		testSecretsAreNotTold(t, c, logged)
	})
}

// A joining node knows a policy that was set through any node, until the policy is deleted through the new node.
func testJoinerKnowsPolicies(t *testing.T, c *clustertest.Cluster) {
	p := &fsmpb.QueuePolicy{Queue: "q", Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)}}
	for i := range 3 {
		p.MaxInFlight = uint32(i + 1)
		given := proto.CloneOf(p)
		if created := mustPut(t, c.Node(i), p); created != (i == 0) || !proto.Equal(p, given) {
			t.Errorf("through node %d: created %v, and the caller's policy is %v", i, created, p)
		}
		everywhere(t, c, 3, "q", p)
	}
	joiner := c.Add()
	c.Start(joiner)
	c.WaitReady()
	everywhere(t, c, 4, "q", p)
	for i, want := range []bool{true, false} {
		existed, err := c.Node(joiner).Policies().DeleteQueue(t.Context(), "", "q")
		if err != nil || existed != want {
			t.Fatalf("deletion %d: %v, %v", i, existed, err)
		}
	}
	everywhere(t, c, 4, "q", nil)
}

// When PutQueue returns, every node knows the policy.
func testPutQueueWaits(t *testing.T, c *clustertest.Cluster) {
	for round := range 60 {
		p := &fsmpb.QueuePolicy{Queue: "waited-for", MaxInFlight: uint32(round + 1)}
		began := time.Now()
		mustPut(t, c.Node(round%3), p)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("round %d took %v", round, took)
		}
		for i := range 3 {
			assert.NoError(t, hasPolicy(t.Context(), c.Node(i), p.Queue, p), "round %d, node %d", round, i)
		}
	}
}

// Every node answers for its audit log, with its own position.
func testAuditOfAllNodes(t *testing.T, c *clustertest.Cluster) {
	replies, failed := c.Node(1).Audit(t.Context(), func(node string) *clusterpb.AuditRequest {
		return &clusterpb.AuditRequest{After: node}
	})
	for i := range 3 {
		id := c.Node(i).ID()
		r := replies[id]
		if want := fmt.Sprint(i, " after ", id); r.GetNext() != want || len(r.Lines) != 1 || !slices.Equal(r.Lost, []uint64{2}) {
			t.Errorf("%v, want %s", r, want)
		}
	}
	if len(replies) != 3 || len(failed) != 0 {
		t.Errorf("%v, %v", replies, failed)
	}
}

// Updates of one policy through all nodes at once each begin with the outcome of the previous one.
func testNoUpdateIsLost(t *testing.T, c *clustertest.Cluster) {
	const each = 8
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for range each {
				_, err := c.Node(i).Policies().UpdateQueue(t.Context(), "", "counter", func(p *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
					return &fsmpb.QueuePolicy{Queue: "counter", MaxInFlight: p.GetMaxInFlight() + 1}, nil
				})
				assert.Equal(t, err, nil)
			}
		})
	}
	wg.Wait()
	everywhere(t, c, 3, "counter", &fsmpb.QueuePolicy{Queue: "counter", MaxInFlight: 3 * each})
	want := errors.New("no")
	if _, err := c.Node(0).Policies().UpdateQueue(t.Context(), "", "counter", func(*fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
		return nil, want
	}); !errors.Is(err, want) {
		t.Errorf("an update that was called off: %v", err)
	}
}

// A policy that breaks a limit is refused with its field's name, also by a leader on another node.
func testPolicyIsChecked(t *testing.T, c *clustertest.Cluster) {
	for i := range 3 {
		_, err := c.Node(i).Policies().PutQueue(t.Context(), &fsmpb.QueuePolicy{Queue: "refused", MaxPerSecond: -1})
		var field *task.FieldError
		if !errors.As(err, &field) || field.Field != "max_per_second" {
			t.Errorf("through node %d: %v", i, err)
		}
		everywhere(t, c, 3, "refused", nil)
	}
}

// The secrets of a policy appear in no log and no error, whatever happens to the policy.
func testSecretsAreNotTold(t *testing.T, c *clustertest.Cluster, logged *assert.Log) {
	secret := []byte("this-is-a-secret-of-32-bytes-yes")
	p := &fsmpb.QueuePolicy{Queue: "secrets", Secrets: [][]byte{secret}}
	var told strings.Builder
	for i := range 3 {
		mustPut(t, c.Node(i), p)
		p.Paused = !p.Paused
		broken := proto.CloneOf(p)
		broken.Queue = "not a name"
		_, err := c.Node(i).Policies().PutQueue(t.Context(), broken)
		fmt.Fprintln(&told, err)
		broken = proto.CloneOf(p)
		broken.Secrets = [][]byte{secret, secret, secret}
		_, err = c.Node(i).Policies().PutQueue(t.Context(), broken)
		fmt.Fprintln(&told, err)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.Node(i).Policies().PutQueue(gone, p)
		fmt.Fprintln(&told, err)
	}
	c.Stop(0)
	c.Start(0)
	c.WaitReady()
	told.WriteString(logged.String())
	for _, form := range []string{
		string(secret[:16]), base64.StdEncoding.EncodeToString(secret)[:16], hex.EncodeToString(secret)[:16], "116 104 105 115",
	} {
		if at := strings.Index(told.String(), form); at >= 0 {
			t.Errorf("a secret is told: %.300q", told.String()[max(0, at-200):])
		}
	}
	assert.Contains(t, logged.String(), "level=DEBUG", "the logs are not looked at")
}

// While nodes come and go, PutQueue's answer about a change is true: made, not made, or not known.
func testPoliciesWhileLeadersChange(t *testing.T, c *clustertest.Cluster) {
	for victim := range 3 {
		asked, ctx := c.Node((victim+1)%3), t.Context()
		stop, done := make(chan struct{}), make(chan []error)
		go func() {
			var answers []error
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- answers
					return
				case <-pace.C:
				}
				_, err := asked.Policies().PutQueue(ctx, &fsmpb.QueuePolicy{Queue: fmt.Sprintf("q-%d-%d", victim, i), Paused: true})
				answers = append(answers, err)
			}
		}()
		mustPut(t, asked, &fsmpb.QueuePolicy{Queue: fmt.Sprint("before-", victim)})
		c.Crash(victim)
		mustPut(t, asked, &fsmpb.QueuePolicy{Queue: fmt.Sprint("after-", victim)})
		close(stop)
		answers := <-done
		c.Start(victim)
		c.WaitReady()
		last := &fsmpb.QueuePolicy{Queue: fmt.Sprint("last-", victim)}
		mustPut(t, asked, last)
		everywhere(t, c, 3, last.Queue, last) // the node then knows all earlier decisions, too
		checkAnswers(t, c.Node(victim), victim, answers)
	}
}

func checkAnswers(t *testing.T, n *cluster.Node, victim int, answers []error) {
	t.Helper()
	made := 0
	all, err := n.Queues(t.Context(), "")
	assert.NoError(t, err)
	for i, err := range answers {
		name := fmt.Sprintf("q-%d-%d", victim, i)
		there := slices.ContainsFunc(all, func(q task.Queue) bool { return q.Policy.GetQueue() == name })
		switch {
		case err == nil && there:
			made++
		case errors.Is(err, task.ErrUnknown):
		case err == nil || there || !errors.Is(err, task.ErrNotProposed):
			t.Errorf("%s: %v, and it is there: %v", name, err, there)
		}
	}
	t.Logf("%d of %d changes were made", made, len(answers))
}

// The counts of a queue are summed over all shards. Queues with a policy or with tasks are listed, each once.
func testQueuesAreCounted(t *testing.T, c *clustertest.Cluster) {
	mustPut(t, c.Node(0), &fsmpb.QueuePolicy{Queue: "listed-empty"})
	mustPut(t, c.Node(0), &fsmpb.QueuePolicy{Queue: "listed-both"})
	var cmds []*fsmpb.Command
	for i := range 100 {
		cmd := schedule(fmt.Sprint("t", i), 30*time.Minute)
		cmd.GetSchedule().Spec.Queue = []string{"listed-both", "listed-tasks"}[i%2]
		cmds = append(cmds, cmd)
	}
	mustDo(t, c.Node(1), cmds...)
	for i := range 3 {
		policy, counts, err := c.Node(i).Queue(t.Context(), "", "listed-both")
		if err != nil || policy == nil || counts.Scheduled != 50 || counts.Due_1M != 0 || counts.Due_1H != 50 {
			t.Errorf("through node %d: %v, %v, %v", i, policy, counts, err)
		}
		all, err := c.Node(i).Queues(t.Context(), "")
		assert.NoError(t, err)
		var told []string
		for _, q := range all {
			if name, ok := strings.CutPrefix(q.Counts.Queue, "listed-"); ok {
				told = append(told, fmt.Sprintf("%s %d %v", name, q.Counts.Scheduled, q.Policy != nil))
			}
		}
		want := []string{"both 50 true", "empty 0 true", "tasks 50 false"}
		assert.EqualSlices(t, told, want, "through node %d", i)
	}
	if policy, counts, err := c.Node(0).Queue(t.Context(), "", "nothing"); err != nil || policy != nil || counts.Scheduled != 0 {
		t.Errorf("a queue without anything: %v, %v, %v", policy, counts, err)
	}
}

// The use of a namespace is summed over all shards, beside the tasks of others.
func testNamespaceIsCounted(t *testing.T, c *clustertest.Cluster) {
	for _, name := range []string{"counted", "beside"} {
		_, _, err := c.Node(0).Tenants().PutNamespace(t.Context(), name, quota.Limits{})
		assert.NoError(t, err)
	}
	var cmds []*fsmpb.Command
	for i := range 60 {
		cmd := schedule(fmt.Sprint("n", i), 30*time.Minute)
		cmd.Namespace = []string{"counted", "beside"}[i%2]
		cmd.GetSchedule().Spec.Queue = fmt.Sprint("q", i%3)
		cmds = append(cmds, cmd)
	}
	mustDo(t, c.Node(1), cmds...)
	for i := range 3 {
		use, err := c.Node(i).NamespaceUse(t.Context(), "counted")
		if err != nil || use.Pending != 30 || use.Queues != 3 || use.Bytes < 30*64 || use.Dead != 0 {
			t.Errorf("through node %d: %+v, %v", i, use, err)
		}
	}
	if use, err := c.Node(0).NamespaceUse(t.Context(), "none"); err != nil || use != (task.NamespaceUse{Namespace: "none"}) {
		t.Errorf("a namespace without tasks: %+v, %v", use, err)
	}
}
