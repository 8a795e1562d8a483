package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

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
