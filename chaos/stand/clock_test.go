package stand

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// An offset is in the file at once, and only in the file of that node.
func TestClocks(t *testing.T) {
	dir := t.TempDir()
	env := slices.Grow([]string{"A=b"}, 8)
	places := []local.Place{{Env: env}, {Env: env}}
	clocks, err := shareClocks(dir, places)
	assert.NoError(t, err)
	s := &Stand{Clocks: clocks}
	t.Cleanup(func() {
		assert.Equal(t, closeAll(s.Clocks), nil)
	})
	s.Clocks["node-2"].Set(int64(-time.Hour))
	for i, want := range []time.Duration{0, -time.Hour} {
		path := filepath.Join(dir, "clocks", names(2)[i])
		data, err := os.ReadFile(path)
		assert.NoError(t, err)
		assert.Equal(t, time.Duration(binary.NativeEndian.Uint64(data)), want, "%s holds", path)
		got := []string{"A=b", "BELFRY_CLOCK_OFFSET_FILE=" + path}
		assert.EqualSlices(t, places[i].Env, got, "%s runs with", path)
	}
}
