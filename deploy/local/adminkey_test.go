package local

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/internal/assert"
)

// flagsOf returns the arguments of the first node.
func flagsOf(t *testing.T, c *Cluster) []string {
	t.Helper()
	resp, err := http.Get(c.URLs()[0])
	assert.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var told struct{ Args []string }
	assert.NoError(t, json.NewDecoder(resp.Body).Decode(&told))
	return told.Args
}

// A cluster with Auth makes a key that only the owner may read, hands it to its nodes, and keeps it at later starts.
func TestAdminKey(t *testing.T) {
	dir := t.TempDir()
	path, first := filepath.Join(dir, "admin.key"), ""
	for i, auth := range []bool{false, true, true, false} {
		c := start(t, Config{Nodes: 1, DataDir: dir, Auth: auth})
		args := flagsOf(t, c)
		at := slices.Index(args, "--root-key-file")
		if i == 0 {
			if at >= 0 || c.KeyFile() != "" || c.Nodes()[0].KeyFile != "" {
				t.Errorf("without Auth: %q, %v", c.KeyFile(), args)
			}
			c.Stop()
			continue
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info, err)
		}
		text, err := os.ReadFile(path)
		assert.NoError(t, err)
		if _, err := access.ParseKey(strings.TrimSpace(string(text))); err != nil || first != "" && string(text) != first {
			t.Errorf("start %d: the key has changed, or %v", i, err)
		}
		first = string(text)
		if at < 0 || args[at+1] != path || c.KeyFile() != path || c.Nodes()[0].KeyFile != path {
			t.Errorf("start %d: %q, %v", i, c.KeyFile(), args)
		}
		c.Stop()
	}
	others, err := filepath.Glob(path + ".*")
	if err != nil || len(others) > 0 {
		t.Errorf("%v %v", others, err)
	}
	assert.NoError(t, os.WriteFile(path, []byte("cut"), 0o600))
	if _, err := Start(t.Context(), Config{Nodes: 1, DataDir: dir}); err == nil || strings.Contains(err.Error(), "cut") {
		t.Errorf("a damaged key: %v", err)
	}
}
