package logstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// bothKinds runs a test with each kind of log.
func bothKinds(t *testing.T, test func(t *testing.T, kind Kind)) {
	for _, kind := range []Kind{WAL, BoltDB} {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// noFatal returns a Fatal for tests in which no write fails.
func noFatal(t testing.TB) func(error) {
	return func(err error) { t.Errorf("unexpected fatal error: %v", err) }
}

// recorder is a Fatal that keeps the errors.
type recorder struct {
	mu   sync.Mutex
	errs []error
	told chan struct{} // gets a token for each error
}

func newRecorder() *recorder { return &recorder{told: make(chan struct{}, 16)} }

func (r *recorder) fatal(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
	r.told <- struct{}{}
}

func (r *recorder) all() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.errs...)
}

// mustOpen opens a folder whose segments are small and rotate often.
func mustOpen(t testing.TB, cfg Config) *Stores {
	t.Helper()
	s, err := Open(testConfig(t, cfg))
	assert.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// testConfig returns a configuration under which no write is too slow.
func testConfig(t testing.TB, cfg Config) Config {
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = time.Hour
	}
	if cfg.Fatal == nil {
		cfg.Fatal = noFatal(t)
	}
	if cfg.segmentSize == 0 {
		cfg.segmentSize = 4096
	}
	return cfg
}

func mustClose(t testing.TB, s *Stores) {
	t.Helper()
	assert.NoError(t, s.Close())
}

// entry returns an entry whose content follows from its index and term.
func entry(index, term uint64) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: content(index, term)}
}

func content(index, term uint64) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%d.%d ", term, index), 1+int(index%7)*4)
}

func entries(first, last, term uint64) []*raft.Log {
	var out []*raft.Log
	for i := first; i <= last; i++ {
		out = append(out, entry(i, term))
	}
	return out
}

func mustStore(t testing.TB, s *Stores, logs []*raft.Log) {
	t.Helper()
	assert.NoError(t, s.Log().StoreLogs(logs))
}

// mustHold checks that the log holds exactly first to last, all of that term; 0, 0: no entry.
func mustHold(t testing.TB, log raft.LogStore, first, last, term uint64) {
	t.Helper()
	gotFirst, gotLast, err := bounds(log)
	if err != nil || gotFirst != first || gotLast != last {
		t.Fatalf("log holds %d to %d, error %v; want %d to %d", gotFirst, gotLast, err, first, last)
	}
	for i := first; last > 0 && i <= last; i++ {
		mustRead(t, log, i, term)
	}
	mustMiss(t, log, first-min(first, 1))
	mustMiss(t, log, last+1)
}

func mustRead(t testing.TB, log raft.LogStore, index, term uint64) {
	t.Helper()
	var got raft.Log
	assert.NoError(t, log.GetLog(index, &got), "entry %d", index)
	if got.Index != index || got.Term != term || !bytes.Equal(got.Data, content(index, term)) {
		t.Fatalf("entry %d of term %d reads as %+v", index, term, got)
	}
}

func mustMiss(t testing.TB, log raft.LogStore, index uint64) {
	t.Helper()
	var got raft.Log
	if err := log.GetLog(index, &got); err != raft.ErrLogNotFound { // Raft also compares with ==
		t.Fatalf("entry %d: error %v, want %v", index, err, raft.ErrLogNotFound)
	}
}

func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("segments in %s: %v, %v", dir, files, err)
	}
	return files // sorted by first index
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	assert.NoError(t, err)
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	assert.NoError(t, os.WriteFile(path, b, 0o600))
}
