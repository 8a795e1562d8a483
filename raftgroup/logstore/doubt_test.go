package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/internal/assert"
)

// failingSync is a segment filer whose files fail to sync when the test asks for it.
type failingSync struct {
	types.SegmentFiler
	fails *bool
}

func (f failingSync) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := f.SegmentFiler.Create(info)
	return failingWriter{w, f.fails}, err
}

type failingWriter struct {
	types.SegmentWriter
	fails *bool
}

// Append writes, and reports a failed sync.
func (w failingWriter) Append(entries []types.LogEntry) error {
	err := w.SegmentWriter.Append(entries)
	if err == nil && *w.fails {
		err = errDisk
	}
	return err
}

// TestWhatAFailedWriteLeftIsWrittenAgain checks that bytes left by a failed write are written again, once, because they
// need not be on the disk.
func TestWhatAFailedWriteLeftIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	rec, fails := newRecorder(), false
	s := mustOpen(t, Config{Dir: dir, Fatal: rec.fatal, segmentSize: defaultSegmentSize,
		wrapFiler: func(f types.SegmentFiler) types.SegmentFiler { return failingSync{f, &fails} }})
	mustStore(t, s, entries(1, 5, 1))
	fails = true
	if err := s.Log().StoreLogs(entries(6, 9, 1)); !errors.Is(err, errDisk) {
		t.Fatalf("an append that was not synced: %v", err)
	}
	_ = s.Close()

	old := setBack(t, dir)
	s = mustOpen(t, Config{Dir: dir})
	for path := range old {
		if !modified(t, path).After(old[path]) {
			t.Errorf("%s was not written again", path)
		}
	}
	mustHold(t, s.Log(), 1, 9, 1)
	mustClose(t, s)

	old = setBack(t, dir)
	mustHold(t, mustOpen(t, Config{Dir: dir}).Log(), 1, 9, 1)
	if path := segmentFiles(t, dir)[0]; modified(t, path).After(old[path]) {
		t.Errorf("%s was written again though nothing had failed", path)
	}
}

// setBack sets the modification times of all files into the past and returns them.
func setBack(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	old := map[string]time.Time{}
	paths := append(segmentFiles(t, dir), filepath.Join(dir, "stable.db"), filepath.Join(dir, "wal", "wal-meta.db"))
	for _, path := range paths {
		then := time.Now().Add(-time.Hour)
		assert.NoError(t, os.Chtimes(path, then, then))
		old[path] = modified(t, path)
	}
	return old
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	assert.NoError(t, err)
	return info.ModTime()
}

// TestFailedOpenCastsDoubt checks that a refusal leaves no note of a failed write, and that another error of Open does.
func TestFailedOpenCastsDoubt(t *testing.T) {
	dir := t.TempDir()
	mustClose(t, mustOpen(t, Config{Dir: dir}))
	path, wal := filepath.Join(dir, "stable.db"), filepath.Join(dir, "wal")
	assert.NoError(t, os.Rename(path, path+".away"))
	if _, err := Open(testConfig(t, Config{Dir: dir})); !errors.Is(err, ErrLostLog) {
		t.Fatalf("%v", err)
	}
	if note := readFile(t, folder(dir).lock()); len(note) > 0 {
		t.Errorf("after a refusal the lock file says %q", note)
	}
	assert.NoError(t, errors.Join(os.Rename(path+".away", path), os.Rename(wal, wal+".away")))
	writeFile(t, wal, nil) // a file in place of the folder
	if _, err := Open(testConfig(t, Config{Dir: dir})); err == nil || refusal(err) {
		t.Fatalf("%v", err)
	}
	note := readFile(t, folder(dir).lock())
	assert.Equal(t, string(note), string(doubted), "after a failure the lock file")
	assert.NoError(t, errors.Join(os.Remove(wal), os.Rename(wal+".away", wal)))
	mustClose(t, mustOpen(t, Config{Dir: dir}))
	if note := readFile(t, folder(dir).lock()); len(note) > 0 {
		t.Errorf("after a success the lock file says %q", note)
	}
}

// TestWhatIsFoundIsSynced checks that Open syncs all files that it finds, because a killed process may have left bytes
// that only the kernel holds.
func TestWhatIsFoundIsSynced(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir})
	mustStore(t, s, entries(1, 5, 1))
	mustClose(t, s)

	synced := map[string]bool{}
	s = mustOpen(t, Config{Dir: dir, sync: func(f *os.File) error {
		synced[f.Name()] = true
		return f.Sync()
	}})
	mustHold(t, s.Log(), 1, 5, 1)
	mustClose(t, s)
	files := append(segmentFiles(t, dir), dir, filepath.Join(dir, "wal"), filepath.Join(dir, "stable.db"),
		filepath.Join(dir, "wal", "wal-meta.db"))
	for _, path := range files {
		if !synced[path] {
			t.Errorf("%s was not synced", path)
		}
	}

	failing := testConfig(t, Config{Dir: dir, sync: func(*os.File) error { return errDisk }})
	_, err := Open(failing)
	assert.ErrorIs(t, err, errDisk, "opened on files that cannot be synced")
}
