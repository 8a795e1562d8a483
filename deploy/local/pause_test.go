package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// TestHangup checks that a hangup of the terminal stops `belfry local` and `belfry demo` with their nodes, but not
// `belfry serve`.
func TestHangup(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // a child inherits an ignored signal, as under nohup
	defer signal.Stop(caught)
	binary := localtest.Build(t)
	t.Run("serve", func(t *testing.T) { hangUpNode(t, binary) })
	t.Run("local", func(t *testing.T) {
		said, err := hangUp(t, binary, "ready: ", "local", "--data", t.TempDir(), "--http-port", "0")
		if err != nil || countLines(said, " stopped (pid ") != 3 {
			t.Errorf("ended with %v and said %q: all three nodes stopped, in order, are wanted", err, said)
		}
	})
	t.Run("demo", func(t *testing.T) {
		dir := t.TempDir()
		if said, err := hangUp(t, binary, "scheduled ", "demo", "--data", dir); err == nil {
			t.Errorf("an interrupted demo succeeded: %q", said)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*", "belfry.pid"))
		if err != nil || len(left) > 0 {
			t.Errorf("nodes were left behind: %q, %v", left, err)
		}
	})
}

func hangUpNode(t *testing.T, binary string) {
	cluster := startReal(t, local.Config{Binary: binary, DataDir: t.TempDir(), Nodes: 1})
	node := cluster.Nodes()[0]
	assert.NoError(t, cluster.Signal(node.Name, syscall.SIGHUP))
	until(t, "the log mentions the hangup", func() error {
		log, err := os.ReadFile(filepath.Join(node.Dir, "belfry.log"))
		if err == nil && !strings.Contains(string(log), "SIGHUP: the files") {
			err = errors.New(string(log))
		}
		return err
	})
	assert.Equal(t, cluster.AwaitReady(t.Context(), node.Name), nil)
}

// hangUp runs a command and sends it SIGHUP after a line of its output that contains until. It returns the lines of the
// output and the error of the exit.
func hangUp(t *testing.T, binary, until string, args ...string) (said []string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	out, err := cmd.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, cmd.Start())
	sent := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if !sent && strings.Contains(lines.Text(), until) {
			sent = true
			assert.Equal(t, cmd.Process.Signal(syscall.SIGHUP), nil)
		}
	}
	if err := cmd.Wait(); sent {
		return said, err
	}
	t.Fatalf("%q was not said: %q", until, said)
	return nil, nil
}

func countLines(lines []string, with string) int {
	return len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, with) }))
}

// TestHealthyNodesLogNoWarning checks that a cluster logs no warning and no error while it starts and stops normally:
// new, on existing data, after a kill of all nodes, and with a single node. On a busy machine nodes warn of late answers.
func TestHealthyNodesLogNoWarning(t *testing.T) {
	gated.Need(t, gated.Timed)
	gated.Need(t, gated.Long)
	binary := localtest.Build(t)
	for _, nodes := range []int{3, 1} {
		cfg := local.Config{Binary: binary, DataDir: t.TempDir(), Nodes: nodes}
		for _, how := range []string{"new", "started again", "started after kill -9"} {
			cluster := startReal(t, cfg)
			_, err := dial(t, cluster.URLs()...).Schedule(t.Context(), client.Task{Delay: time.Hour})
			assert.Equal(t, err, nil)
			if how == "started again" {
				noWarning(t, cluster, how) // before the kill: a node that sees others die may warn
				killAll(t, cluster)
			} else {
				cluster.Stop()
				noWarning(t, cluster, how)
			}
			forgetLogs(t, cluster)
		}
	}
}

func killAll(t *testing.T, cluster *local.Cluster) {
	t.Helper()
	for _, n := range cluster.Nodes() {
		assert.NoError(t, cluster.Kill(n.Name))
	}
}

func logOf(n local.Node) string { return filepath.Join(n.Dir, "belfry.log") }

func noWarning(t *testing.T, cluster *local.Cluster, how string) {
	t.Helper()
	for _, n := range cluster.Nodes() {
		log, err := os.ReadFile(logOf(n))
		assert.NoError(t, err)
		if !bytes.Contains(log, []byte("level=INFO")) {
			t.Errorf("%s, %s, has logged nothing: this shows nothing", n.Name, how)
		}
		for line := range bytes.Lines(log) {
			if bytes.Contains(line, []byte("level=WARN")) || bytes.Contains(line, []byte("level=ERROR")) {
				t.Errorf("%s, %s: %s", n.Name, how, line)
			}
		}
	}
}

func forgetLogs(t *testing.T, cluster *local.Cluster) {
	t.Helper()
	for _, n := range cluster.Nodes() {
		assert.NoError(t, os.Remove(logOf(n)))
	}
}
