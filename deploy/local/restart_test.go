package local_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// restarted is a cluster of three real nodes that the test starts one by one, as systemd would.
type restarted struct {
	t      *testing.T
	binary string
	dirs   []string
	http   []string
	peers  []string
	nodes  []*child.Child // nil: down
	tasks  int            // acknowledged so far
}

// formed starts three nodes with --join and schedules some tasks. Later starts have no --join.
func formed(t *testing.T, binary string) *restarted {
	t.Helper()
	r := &restarted{t: t, binary: binary, nodes: make([]*child.Child, 3)}
	for range 3 {
		r.dirs = append(r.dirs, t.TempDir())
	}
	r.http, r.peers = freeAddrs(t, 3), freeAddrs(t, 3)
	t.Cleanup(r.kill)
	for i := range r.nodes {
		r.start(i, "--bootstrap-expect", "3", "--join", strings.Join(r.peers, ","))
	}
	r.awaitReady()
	r.write()
	return r
}

func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	addrs, err := local.FreeAddrs(n)
	assert.NoError(t, err)
	return addrs
}

// start starts a node with its folder, its present addresses and the given arguments.
func (r *restarted) start(i int, args ...string) {
	r.t.Helper()
	command := slices.Concat([]string{r.binary, "serve", "--name", fmt.Sprint("node-", i), "--data", r.dirs[i],
		"--http", r.http[i], "--peer", r.peers[i]}, args)
	node, err := child.Start(child.Config{Command: command, Log: r.log(i)})
	assert.NoError(r.t, err)
	r.nodes[i] = node
}

func (r *restarted) log(i int) string { return filepath.Join(r.dirs[i], "belfry.log") }

// kill kills all nodes at once, like a power cut.
func (r *restarted) kill() {
	for i, n := range r.nodes {
		if n == nil {
			continue
		}
		assert.Equal(r.t, n.SignalGroup(syscall.SIGKILL), nil)
		<-n.Done()
		r.nodes[i] = nil
	}
}

// awaitReady waits until every node reports that it is ready.
func (r *restarted) awaitReady() {
	r.t.Helper()
	for i := range r.nodes {
		until(r.t, "every node is ready", func() error {
			if r.nodes[i].Ended() {
				r.t.Fatalf("node %d has ended; its log:\n%s", i, child.LogTail(r.log(i)))
			}
			if !r.isReady(i) {
				return fmt.Errorf("node %d is not; its log:\n%s", i, child.LogTail(r.log(i)))
			}
			return nil
		})
	}
}

func (r *restarted) isReady(i int) bool {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.http[i]+"/readyz", nil)
	assert.NoError(r.t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // the body is not needed
	return resp.StatusCode == http.StatusOK
}

// write schedules tasks through every node.
func (r *restarted) write() {
	r.t.Helper()
	for i := range 30 {
		node := dial(r.t, "http://"+r.http[i%3])
		task := client.Task{ID: fmt.Sprint("task-", r.tasks), Delay: time.Hour}
		if _, err := node.Schedule(r.t.Context(), task); err != nil {
			r.t.Fatalf("through node %d: %v", i%3, err)
		}
		r.tasks++
	}
}

// check reads all tasks through every node, and schedules more.
func (r *restarted) check() {
	r.t.Helper()
	r.awaitReady()
	for round := range 2 {
		for _, addr := range r.http {
			readAll(r.t, dial(r.t, "http://"+addr), r.tasks)
		}
		if round == 0 {
			r.write()
		}
	}
}

// TestNodesFindEachOtherAfterAPowerCut restarts nodes after a power cut. Their data folders are enough to find each
// other as long as every majority has kept at least one address. Otherwise one --join for each node is enough.
func TestNodesFindEachOtherAfterAPowerCut(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	binary := localtest.Build(t)
	for name, test := range map[string]func(*restarted){
		"nothing else has changed": func(r *restarted) { r.kill() },
		"one has another address": func(r *restarted) {
			r.kill()
			r.peers[1] = freeAddrs(r.t, 1)[0]
		},
		"two have swapped addresses": func(r *restarted) {
			r.kill()
			r.peers[0], r.peers[1] = r.peers[1], r.peers[0]
		},
		"two have swapped addresses beside one that runs": func(r *restarted) {
			runs := r.nodes[2]
			r.nodes[2] = nil
			r.kill()
			r.nodes[2] = runs
			r.peers[0], r.peers[1] = r.peers[1], r.peers[0]
		},
		"all have other addresses": func(r *restarted) {
			r.kill()
			r.peers = freeAddrs(r.t, 3)
			for i := range r.nodes {
				r.start(i, "--join", r.peers[(i+1)%3])
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := formed(t, binary)
			test(r)
			r.startRest()
			r.check()
			r.kill()
			r.startRest()
			r.check()
		})
	}
}

// startRest starts the nodes that are down, without --join.
func (r *restarted) startRest() {
	r.t.Helper()
	for i, n := range r.nodes {
		if n == nil {
			r.start(i)
		}
	}
}
