package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestDamagedMarkBeginsAnew(t *testing.T) {
	w := newWorld(t, nil)
	sh := w.shard(1)
	appendAll(sh, 1, 10, "a")
	w.sync(sh, 50)
	assert.NoError(t, w.store.Close())
	path := filepath.Join(w.cfg.Dir, "1", markName)
	mark, err := os.ReadFile(path)
	assert.NoError(t, err)
	for size := range mark {
		assert.NoError(t, os.WriteFile(path, mark[:size], 0o600))
		c := w.crash()
		if last := c.shard(1).Last(); last != (Position{Index: 10}) {
			t.Fatalf("last %v with %d bytes of a mark, want 10.0", last, size)
		}
		c.wantIndexes(1, "a", 1, 10)
		gone := c.wantGone(1, "a", 10)
		assert.MustEqual(t, gone.After.Index, 0, "gone up to %v, want the place before entry 1", gone.After)
		assert.MustEqual(t, testutil.ToFloat64(c.store.metrics.corrupt), 1, "damaged places are counted")
	}
	w.open()
}

func TestMissingFileIsAGap(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Bytes = 2 << 20; c.Buffer = 64 << 20 })
	sh := w.shard(1)
	appendNoisy(sh, 1, 8000, "a")
	w.sync(sh, 8000)
	files := w.files()
	if len(files) < 3 {
		t.Fatalf("%d segments, want 3 at least", len(files))
	}
	assert.NoError(t, os.Remove(files[1]))
	events, gaps := w.read(1, "a", Position{}, Filter{})
	if len(gaps) != 1 || len(events) == 0 || events[len(events)-1].Index != 8000 {
		t.Fatalf("%d events, gaps %v; want one gap and all events after it", len(events), gaps)
	}
	if missing := gaps[0].Last.Index - gaps[0].First.Index + 1; missing+uint64(len(events)) != 8000 {
		t.Fatalf("%d events and a gap of %d entries, want 8000 together", len(events), missing)
	}
	assert.NoError(t, w.store.Erase("a"))
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	w := newWorld(t, func(c *Config) { c.Registerer = registry })
	sh := w.shard(1)
	appendAll(sh, 1, 100, "a", "b")
	if n := testutil.ToFloat64(w.store.metrics.waiting); n < 100 {
		t.Errorf("%v bytes wait, want those of 200 events", n)
	}
	w.sync(sh, 100)
	n := testutil.ToFloat64(w.store.metrics.bytes)
	assert.Equal(t, int64(n), fileSize(t, w.files()[0]), "%v bytes on disk, want the size of the file", n)
	expected := `
		# HELP belfry_history_events_total Events written to the disk.
		# TYPE belfry_history_events_total counter
		belfry_history_events_total 200
		# HELP belfry_history_waiting_bytes Memory of the events that wait for the disk.
		# TYPE belfry_history_waiting_bytes gauge
		belfry_history_waiting_bytes 0
	`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(expected),
		"belfry_history_events_total", "belfry_history_waiting_bytes"); err != nil {
		t.Error(err)
	}
	_, err := Open(w.cfg)
	assert.Error(t, err, "a second store with the same metrics opens")
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no folder":       {},
		"negative bytes":  {Dir: t.TempDir(), Bytes: -1},
		"negative age":    {Dir: t.TempDir(), Age: -1},
		"negative total":  {Dir: t.TempDir(), Total: -1},
		"negative buffer": {Dir: t.TempDir(), Buffer: -1},
	} {
		if _, err := Open(cfg); err == nil || !strings.HasPrefix(err.Error(), "history: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
