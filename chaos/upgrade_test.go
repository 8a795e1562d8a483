package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/internal/wait"
)

// upgraded is a local cluster whose nodes change their builds.
type upgraded struct {
	*testing.T
	cluster  *local.Cluster
	old, now local.Build
	tasks    int
}

// TestNodesGoBackUntilTheVersionIsRaised forms a cluster with this build, of command version 1. It upgrades two of the
// nodes to the build with version 2, gives them this build again, and then upgrades all of them. Once the version is
// raised, this build refuses the folder, and the newer one goes on with it.
func TestNodesGoBackUntilTheVersionIsRaised(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	u := &upgraded{
		T: t, old: local.Build{Binary: localtest.Build(t)}, now: local.Build{Binary: localtest.Build(t, "next")},
	}
	cluster, err := local.Start(t.Context(), local.Config{
		DataDir: t.TempDir(), Binary: u.old.Binary, ExtraArgs: []string{"--shards", "3"},
	})
	assert.NoError(t, err)
	defer cluster.Stop()
	u.cluster = cluster
	u.write()
	for _, build := range []local.Build{u.now, u.old, u.now} {
		for _, name := range []string{"node-1", "node-2"} {
			u.change(name, build)
			u.write()
			u.inForce(1)
		}
	}
	u.change("node-3", u.now)
	u.inForce(2)
	u.refuses("node-2", "that this build cannot read")
	u.change("node-2", u.now)
	u.write()
	u.inForce(2)
}

// change restarts a node with a build, and reads all tasks through it.
func (u *upgraded) change(name string, build local.Build) {
	u.Helper()
	if u.running(name) {
		assert.NoError(u, u.cluster.Terminate(name))
	}
	assert.NoError(u, errors.Join(u.cluster.UseBuild(name, build), u.cluster.StartNode(u.Context(), name)))
	c := u.client(name)
	for i := range u.tasks {
		_, err := c.Get(u.Context(), fmt.Sprint("task-", i))
		assert.Equal(u, err, nil, "task %d through %s, after its change", i, name)
	}
}

func (u *upgraded) node(name string) local.Node {
	nodes := u.cluster.Nodes()
	return nodes[slices.IndexFunc(nodes, func(n local.Node) bool { return n.Name == name })]
}

func (u *upgraded) running(name string) bool { return u.node(name).PID != 0 }

func (u *upgraded) client(names ...string) *client.Client {
	u.Helper()
	var addrs []string
	for _, name := range names {
		addrs = append(addrs, "http://"+u.node(name).HTTPAddr)
	}
	c, err := client.New(client.Config{Addrs: addrs, FixedAddrs: true})
	assert.NoError(u, err)
	return c
}

// write schedules tasks through all nodes that run.
func (u *upgraded) write() {
	u.Helper()
	for range 10 {
		for _, name := range []string{"node-1", "node-2", "node-3"} {
			task := client.Task{ID: fmt.Sprint("task-", u.tasks), Delay: time.Hour}
			_, err := u.client(name).Schedule(u.Context(), task)
			assert.NoError(u, err, "through %s", name)
			u.tasks++
		}
	}
}

// inForce waits until a node says that a command version is in force.
func (u *upgraded) inForce(want uint32) {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 20*time.Second)
	defer cancel()
	for {
		var seen uint32
		for _, node := range u.cluster.Nodes() {
			if view, err := u.client(node.Name).Cluster(ctx); err == nil {
				seen = max(seen, view.CommandVersion)
			}
		}
		switch {
		case seen == want:
			return
		case seen > want:
			u.Fatalf("command version %d is in force, and not %d", seen, want)
		case !wait.For(ctx, 50*time.Millisecond):
			u.Fatalf("command version %d is not in force: %d is", want, seen)
		}
	}
}

// refuses starts a node with the older build, which must end by itself and say why.
func (u *upgraded) refuses(name, reason string) {
	u.Helper()
	assert.NoError(u, errors.Join(u.cluster.Terminate(name), u.cluster.UseBuild(name, u.old)))
	ctx, cancel := context.WithTimeout(u.Context(), 30*time.Second)
	defer cancel()
	err := u.cluster.StartNode(ctx, name)
	for u.running(name) && wait.For(ctx, 20*time.Millisecond) {
		continue // it may end later, and the cluster notices it later still
	}
	log, logErr := os.ReadFile(filepath.Join(u.node(name).Dir, "belfry.log"))
	if u.running(name) || logErr != nil || !strings.Contains(string(log), reason) {
		u.Errorf("the older build runs on with newer logs (%v, %v); its log ends with\n%s", err, logErr, log[max(0, len(log)-3000):])
	}
}
