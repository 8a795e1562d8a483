package node

import (
	"net"
	"path/filepath"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestServiceManager checks that a node tells its service manager when it is ready, and before it stops.
func TestServiceManager(t *testing.T) {
	cfg := DevConfig(filepath.Join(t.TempDir(), "data")) // it is ready soon
	cfg.NotifySocket = filepath.Join(t.TempDir(), "s")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: cfg.NotifySocket, Net: "unixgram"})
	assert.NoError(t, err)
	defer func() { _ = manager.Close() }()
	told := func(until string) (all []string) {
		t.Helper()
		for !slices.Contains(all, until) {
			b := make([]byte, 4<<10)
			n, err := manager.Read(b)
			assert.NoError(t, err)
			all = append(all, string(b[:n]))
		}
		return all
	}
	n, err := Start(t.Context(), cfg)
	assert.NoError(t, err)
	if all := told("READY=1"); all[len(all)-2] != "STATUS=ready" {
		t.Errorf("before READY=1 came %q", all)
	}
	assert.Equal(t, n.cluster.Ready(), nil)
	assert.Equal(t, n.Close(), nil)
	told("STOPPING=1\nSTATUS=stopping")

	cfg.DataDir, cfg.NotifySocket = filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "none")
	n, err = Start(t.Context(), cfg)
	assert.NoError(t, err, "a node without its manager")
	assert.Equal(t, n.Close(), nil)
}
