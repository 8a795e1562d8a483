package local_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

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
