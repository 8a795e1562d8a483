package node_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// The tests of package client with whole nodes are here: an import of package node by them would add its dependencies to
// the checksums of every program that imports package client.

// load schedules tasks in many goroutines at once, each of which cancels every other one of its tasks. It calls called,
// if not nil, after each schedule.
func load(t *testing.T, c *client.Client, prefix string, callers, each int, called func()) {
	t.Helper()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range each {
				id := fmt.Sprintf("%s-%d-%d", prefix, i, j)
				change, err := c.Schedule(t.Context(), client.Task{ID: id, Delay: time.Hour})
				if err != nil || change.ID != id || change.Revision == 0 {
					t.Errorf("schedule %s: %+v %v", id, change, err)
					return
				}
				if called != nil {
					called()
				}
				if j%2 == 1 {
					if outcome, err := c.Cancel(t.Context(), id); err != nil || outcome != client.OutcomeCancelled {
						t.Errorf("cancel %s: %s %v", id, outcome, err)
					}
				}
			}
		})
	}
	all.Wait()
}

// counter returns the sum of a counter over all nodes.
func counter(t *testing.T, c *nodetest.Cluster, callers *http.Client, key, name string) (sum float64) {
	t.Helper()
	for _, url := range c.URLs() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", http.NoBody)
		assert.NoError(t, err)
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp, err := callers.Do(req)
		assert.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", url, resp.Status, err)
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				assert.NoError(t, err)
				sum += n
			}
		}
	}
	return sum
}

// awaitDirectCalls waits until the client knows the leaders, whose moves may not have ended, so that its calls do not hop
// from node to node.
func awaitDirectCalls(t *testing.T, cluster *nodetest.Cluster, key string, c *client.Client) {
	t.Helper()
	const hops, patience = "belfry_router_hops_total", 2 * time.Minute
	callers, late := cluster.HTTP(), time.After(patience)
	for n := 0; ; n++ {
		before := counter(t, cluster, callers, key, hops)
		load(t, c, fmt.Sprint("direct", n), 8, 8, nil)
		if counter(t, cluster, callers, key, hops) == before {
			return
		}
		select {
		case <-time.After(time.Second):
		case <-late:
			t.Fatalf("calls still hop from node to node after %v", patience)
		}
	}
}

// TestKeyOfOneNamespaceCallsLeaders checks that the calls of a client whose key reaches one namespace only go to the
// leaders themselves.
func TestKeyOfOneNamespaceCallsLeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "root.key")
		_, key := access.NewKey()
		assert.NoError(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
		cluster := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Access.RootKeyFile = file })
		admin := cluster.Client(client.Config{KeyFile: file})
		if _, err := admin.PutNamespace(t.Context(), "orders", client.Quotas{}); err != nil {
			t.Fatal(err)
		}
		made, err := admin.CreateKey(t.Context(), client.KeyRequest{
			Name: "shop", Grants: []client.Grant{{Role: client.RoleSchedule, Namespace: "orders"}}})
		assert.NoError(t, err)
		c := cluster.Client(client.Config{Addrs: cluster.URLs()[1:2], Key: made.Key})
		awaitDirectCalls(t, cluster, key, c)
		if _, err := c.Cluster(t.Context()); !errors.Is(err, client.ErrForbidden) {
			t.Errorf("the view of the cluster: %v", err)
		}
	})
}

// TestCallsSurviveTheDeathOfALeader checks that calls find their leaders, survive the death of one, and find the new
// leaders.
func TestCallsSurviveTheDeathOfALeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, each = 32, 50
		cluster := nodetest.Start(t, 3, nil)
		c := cluster.Client(client.Config{Addrs: cluster.URLs()[1:2]})
		load(t, c, "warm", 16, 4, nil)
		awaitDirectCalls(t, cluster, "", c)
		view, err := c.Cluster(t.Context())
		assert.NoError(t, err)
		victim := cluster.Index(view.Node(view.Shards[0].Leader).Name)
		c = cluster.Client(client.Config{Addrs: slices.Delete(cluster.URLs(), victim, victim+1)})
		load(t, c, "before", 16, 4, nil)
		var dying sync.WaitGroup
		var done atomic.Int64
		half := make(chan struct{})
		dying.Go(func() {
			load(t, c, "dying", callers, each, func() {
				if done.Add(1) == callers*each/2 {
					close(half)
				}
			})
		})
		<-half
		cluster.Kill(victim)
		dying.Wait()
		load(t, c, "after", 16, 4, nil)
		for i := range callers {
			for j := range each {
				task, err := c.Get(t.Context(), fmt.Sprintf("dying-%d-%d", i, j))
				want := client.StateScheduled
				if j%2 == 1 {
					want = client.StateCancelled
				}
				if err != nil || task.State != want {
					t.Errorf("dying-%d-%d: %+v %v", i, j, task, err)
				}
			}
		}
		if _, err := c.Cancel(t.Context(), "nothing"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}
