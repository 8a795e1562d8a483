package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestErase checks that the data of a stopped node is deleted, but neither its log nor the data of a running node.
func TestErase(t *testing.T) {
	c := start(t, Config{Nodes: 3, Founders: 1, ExtraArgs: []string{"--mood", "good"}})
	nodes := c.Nodes()
	if nodes[0].PID == 0 || nodes[1].PID != 0 || nodes[2].PID != 0 {
		t.Fatalf("one node forms the cluster: %+v", nodes)
	}
	data := filepath.Join(nodes[0].Data, "log", "entry")
	assert.NoError(t, os.MkdirAll(filepath.Dir(data), 0o755))
	assert.NoError(t, os.WriteFile(data, []byte("1"), 0o644))
	assert.Error(t, c.Erase("node-1"), "the data of a running node was erased")
	assert.NoError(t, c.Kill("node-1"))
	assert.NoError(t, c.Erase("node-1"))
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data is still there: %v", err)
	}
	_, err := os.Stat(logPath(nodes[0].Dir))
	assert.Equal(t, err, nil, "the log is gone")
}
