package local_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// TestRealNodes checks that acknowledged tasks are readable through every node, without a killed node, and after a
// restart of all nodes on the same folder.
func TestRealNodes(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	cfg := local.Config{Binary: localtest.Build(t), DataDir: t.TempDir()}
	cluster := startReal(t, cfg)
	const tasks = 30
	for i := range tasks {
		node := dial(t, cluster.URLs()[i%3])
		_, err := node.Schedule(t.Context(), client.Task{ID: fmt.Sprint("task-", i), Delay: time.Hour})
		assert.NoError(t, err)
	}
	readAll(t, dial(t, cluster.URLs()[1]), tasks)

	assert.NoError(t, cluster.Kill("node-1"))
	readAll(t, dial(t, cluster.URLs()...), tasks)
	assert.NoError(t, cluster.StartNode(t.Context(), "node-1"))
	readAll(t, dial(t, cluster.URLs()[0]), tasks)

	before := cluster.Nodes()
	cluster.Stop()
	cluster = startReal(t, cfg)
	readAll(t, dial(t, cluster.URLs()[2]), tasks)
	for i, n := range cluster.Nodes() {
		if n.PeerAddr != before[i].PeerAddr || n.HTTPAddr != before[i].HTTPAddr {
			t.Errorf("%s moved from %+v", n.Name, before[i])
		}
	}
}

func startReal(t *testing.T, cfg local.Config) *local.Cluster {
	t.Helper()
	cluster, err := local.Start(t.Context(), cfg)
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	return cluster
}

func dial(t *testing.T, urls ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: urls})
	assert.NoError(t, err)
	return c
}

// until waits until a condition holds. It gives up shortly before go test ends the tests, and then fails the test with the
// condition's last error.
func until(t *testing.T, what string, holds func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond) // leaves the processor to the nodes
	defer ticker.Stop()
	deadline, bounded := t.Deadline()
	for ; ; <-ticker.C {
		err := holds()
		if err == nil {
			return
		}
		if bounded && time.Until(deadline) < 10*time.Second {
			t.Fatalf("never: %s: %v", what, err)
		}
	}
}

func readAll(t *testing.T, c *client.Client, tasks int) {
	t.Helper()
	for i := range tasks {
		task, err := c.Get(t.Context(), fmt.Sprint("task-", i))
		assert.NoError(t, err)
		assert.Equal(t, task.State, client.StateScheduled, "%s", task.ID)
	}
}

// A cluster with keys answers calls with its admin key, and no others.
func TestRealClusterWithKeys(t *testing.T) {
	gated.Need(t, gated.Real)
	cluster := startReal(t, local.Config{Binary: localtest.Build(t), Nodes: 1, DataDir: t.TempDir(), Auth: true})
	_, err := dial(t, cluster.URLs()...).Schedule(t.Context(), client.Task{ID: "a", Delay: time.Hour})
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		t.Errorf("without a key: %v", err)
	}
	c, err := client.New(client.Config{Addrs: cluster.URLs(), KeyFile: cluster.KeyFile()})
	assert.NoError(t, err)
	if _, err := c.Schedule(t.Context(), client.Task{ID: "a", Delay: time.Hour}); err != nil {
		t.Error(err)
	}
	if _, err := cluster.Nodes()[0].Metric(t.Context(), "belfry_http_consumers_waiting"); err != nil {
		t.Error(err)
	}
}
