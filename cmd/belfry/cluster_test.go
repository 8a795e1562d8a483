package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestClusterOutlivesItsLeader kills the leader of the control group among three processes, and with it leaders of
// shards. Doctor tells of the fault and its end. Acknowledged tasks are there through the other nodes meanwhile, and
// through the killed one after its start. A call that is repeated there does not make a second task.
func TestClusterOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	cluster := localCluster(t, local.Config{})
	urls := cluster.URLs()
	c := dialNodes(t, urls)
	awaitFindings(t, urls, 0)
	tasks := 0
	schedule := func(node int) {
		task := client.Task{ID: fmt.Sprint("task-", tasks), Delay: time.Hour}
		through := dial(t, urls[node])
		awaitNil(t, func() error {
			_, err := through.Schedule(t.Context(), task)
			return err
		})
		tasks++
	}
	for i := range 30 {
		schedule(i % 3)
	}
	victim := leaderOfControl(t, cluster, c)
	assert.NoError(t, cluster.Kill(victim))
	awaitFindings(t, urls, exitWarnings, "quorum-at-risk", "node-away")
	at := slices.IndexFunc(cluster.Nodes(), func(n local.Node) bool { return n.Name == victim })
	for i := range 3 {
		if i != at {
			checkScheduled(t, dial(t, urls[i]), tasks)
			schedule(i)
		}
	}
	assert.NoError(t, cluster.StartNode(t.Context(), victim))
	checkScheduled(t, dial(t, urls[at]), tasks)
	awaitNil(t, func() error { // it may be answered that no shard has a leader
		const body = `{"delay": "1h"}`
		if status, problem := putOnce(t, urls[at], "task-0", body); status != http.StatusPreconditionFailed || problem.Task.ID != "task-0" {
			return fmt.Errorf("a repeat: %d %+v", status, problem)
		}
		return nil
	})
	awaitFindings(t, urls, 0)
}

// checkScheduled checks that the tasks task-0, task-1, … wait.
func checkScheduled(t *testing.T, c *client.Client, tasks int) {
	t.Helper()
	for i := range tasks {
		awaitState(t, c, fmt.Sprint("task-", i), client.StateScheduled)
	}
}

// leaderOfControl returns the name of the running node that leads the control group.
func leaderOfControl(t *testing.T, cluster *local.Cluster, c *client.Client) (name string) {
	t.Helper()
	await(t, "a leader of the control group", func() bool {
		view, err := c.Cluster(t.Context())
		if err != nil || view.Control.Leader == "" {
			return false
		}
		at := slices.IndexFunc(view.Nodes, func(n client.Node) bool { return n.ID == view.Control.Leader })
		for _, n := range cluster.Nodes() {
			if at >= 0 && n.HTTPAddr == view.Nodes[at].HTTPAddr && n.PID != 0 {
				name = n.Name
			}
		}
		return name != ""
	})
	return name
}
