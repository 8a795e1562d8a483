package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

const patience = 2 * time.Minute

// realNodes starts three nodes as processes.
func realNodes(t *testing.T) *local.Cluster { return startNodes(t, local.Config{}) }

func startNodes(t *testing.T, cfg local.Config) *local.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs real nodes")
	}
	cfg.Binary, cfg.DataDir = localtest.Build(t), t.TempDir()
	cluster, err := local.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	return cluster
}

func dial(t *testing.T, addrs ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: addrs, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// load schedules tasks in many goroutines at once, each of which cancels every other one of its tasks.
func load(t *testing.T, c *client.Client, prefix string, callers, each int) {
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

// counter returns the sum of a counter over all nodes that answer.
func counter(t *testing.T, cluster *local.Cluster, name string) (sum float64) {
	t.Helper()
	for _, url := range cluster.URLs() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if file := cluster.KeyFile(); file != "" {
			key, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, name+" "); ok {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	return sum
}

// awaitDirectCalls waits until the client knows the leaders, whose moves may not have ended, so that its calls do not
// hop from node to node.
func awaitDirectCalls(t *testing.T, cluster *local.Cluster, c *client.Client) {
	t.Helper()
	end := time.Now().Add(patience)
	for n := 0; ; n++ {
		before := counter(t, cluster, "belfry_router_hops_total")
		load(t, c, fmt.Sprint("direct", n), 8, 8)
		if counter(t, cluster, "belfry_router_hops_total") == before {
			return
		}
		if time.Now().After(end) {
			t.Fatal("calls still hop from node to node")
		}
	}
}

// TestKeyOfOneNamespaceCallsLeaders checks that the calls of a client whose key reaches one namespace only go to the
// leaders themselves.
func TestKeyOfOneNamespaceCallsLeaders(t *testing.T) {
	cluster := startNodes(t, local.Config{Auth: true})
	admin, err := client.New(client.Config{Addrs: cluster.URLs(), KeyFile: cluster.KeyFile(), Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	if _, err := admin.PutNamespace(t.Context(), "orders", client.Quotas{}); err != nil {
		t.Fatal(err)
	}
	made, err := admin.CreateKey(t.Context(), client.KeyRequest{
		Name: "shop", Grants: []client.Grant{{Role: client.RoleSchedule, Namespace: "orders"}}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Addrs: cluster.URLs()[1:2], Key: made.Key, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	awaitDirectCalls(t, cluster, c)
	if _, err := c.Cluster(t.Context()); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("the view of the cluster: %v", err)
	}
}

// TestRealNodes checks that calls find their leaders, survive the death of one, and find the new leaders.
func TestRealNodes(t *testing.T) {
	cluster := realNodes(t)
	c := dial(t, cluster.URLs()[1])
	load(t, c, "warm", 16, 4)
	awaitDirectCalls(t, cluster, c)
	view, err := c.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	victim := view.Node(view.Shards[0].Leader)
	addrs := []string{}
	for _, n := range cluster.Nodes() {
		if n.Name != victim.Name {
			addrs = append(addrs, n.HTTPAddr)
		}
	}
	c = dial(t, addrs...)
	load(t, c, "before", 16, 4)
	var dying sync.WaitGroup
	dying.Go(func() { load(t, c, "dying", 32, 50) })
	if err := cluster.Kill(victim.Name); err != nil {
		t.Fatal(err)
	}
	dying.Wait()
	load(t, c, "after", 16, 4)
	for i := range 32 {
		for j := range 50 {
			task, err := c.Get(t.Context(), fmt.Sprintf("dying-%d-%d", i, j))
			want := client.Scheduled
			if j%2 == 1 {
				want = client.Cancelled
			}
			if err != nil || task.State != want {
				t.Errorf("dying-%d-%d: %+v %v", i, j, task, err)
			}
		}
	}
	if _, err := c.Cancel(t.Context(), "nothing"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
