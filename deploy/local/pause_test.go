package local_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// stuckAfter is how long a leader may commit nothing before its node ends. The default outside this test is 20 s.
const stuckAfter = 3 * time.Second

// TestPausedNodeLives pauses a node under load for longer than stuckAfter, in the long form one node after the other. The
// node survives and takes tasks again.
func TestPausedNodeLives(t *testing.T) {
	gated.Need(t, gated.Timed)
	place := local.Place{Env: []string{"BELFRY_STUCK=" + stuckAfter.String()}}
	cluster := startReal(t, local.Config{
		Binary: localtest.Build(t, "chaos"), DataDir: t.TempDir(), Places: []local.Place{place, place, place},
	})
	load(t, cluster.URLs())
	nodes := cluster.Nodes()
	if !gated.Has(gated.Long) {
		nodes = nodes[:1]
	}
	for _, node := range nodes {
		assert.NoError(t, cluster.Pause(node.Name))
		livesFor(t, cluster, stuckAfter+2*time.Second)
		assert.NoError(t, cluster.Resume(node.Name))
		livesFor(t, cluster, time.Second)
		assert.NoError(t, cluster.AwaitReady(t.Context(), node.Name))
		c := dial(t, "http://"+node.HTTPAddr)
		_, err := c.Schedule(t.Context(), client.Task{ID: "after-" + node.Name, Delay: time.Hour})
		assert.Equal(t, err, nil, "%s after its pause", node.Name)
	}
}

// load schedules through every node until the test ends, and ignores the answers.
func load(t *testing.T, urls []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	t.Cleanup(callers.Wait)
	t.Cleanup(cancel)
	for i, url := range urls {
		c := dial(t, url)
		for j := range 4 {
			callers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					once, done := context.WithTimeout(ctx, time.Second)
					_, _ = c.Schedule(once, client.Task{ID: fmt.Sprintf("load-%d-%d-%d", i, j, n), Delay: time.Hour})
					done()
				}
			})
		}
	}
}

// livesFor fails the test if a node dies by itself within d.
func livesFor(t *testing.T, cluster *local.Cluster, d time.Duration) {
	t.Helper()
	end := time.After(d)
	for {
		select {
		case e := <-cluster.Events():
			if e.Kind == local.Died {
				t.Fatalf("%s", e)
			}
		case <-end:
			return
		}
	}
}
