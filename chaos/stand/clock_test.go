package stand

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
)

// An offset is in the file at once, and only in the file of that node.
func TestClocks(t *testing.T) {
	dir := t.TempDir()
	env := slices.Grow([]string{"A=b"}, 8)
	places := []local.Place{{Env: env}, {Env: env}}
	clocks, err := shareClocks(dir, places)
	if err != nil {
		t.Fatal(err)
	}
	s := &Stand{Clocks: clocks}
	t.Cleanup(func() {
		if err := closeAll(s.Clocks); err != nil {
			t.Error(err)
		}
	})
	s.Clocks["node-2"].Set(int64(-time.Hour))
	for i, want := range []time.Duration{0, -time.Hour} {
		path := filepath.Join(dir, "clocks", names(2)[i])
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(binary.NativeEndian.Uint64(data)); got != want {
			t.Errorf("%s holds %v, not %v", path, got, want)
		}
		if got := []string{"A=b", "BELFRY_CLOCK_OFFSET_FILE=" + path}; !slices.Equal(places[i].Env, got) {
			t.Errorf("%s runs with %v", path, places[i].Env)
		}
	}
}
