package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestCutTailSurvivesRestart checks that a log that was cut in the middle of its newest segment is readable after a
// restart (raft-wal issue 31).
func TestCutTailSurvivesRestart(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, Config{Dir: dir})
	mustStore(t, s, entries(1, 7, 1))
	assert.NoError(t, s.Log().DeleteRange(7, 7))
	mustClose(t, s)
	s = mustOpen(t, Config{Dir: dir})
	mustHold(t, s.Log(), 1, 6, 1)
	mustStore(t, s, entries(7, 20, 1))
	mustClose(t, s)
	mustHold(t, mustOpen(t, Config{Dir: dir}).Log(), 1, 20, 1)
}

// TestCutHeadOfNewestSegmentIsNotFound checks that entries cut from the head of the newest segment are not found.
// raft-wal itself still finds them.
func TestCutHeadOfNewestSegmentIsNotFound(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir()})
	mustStore(t, s, entries(1, 7, 1))
	assert.NoError(t, s.Log().DeleteRange(1, 3))
	mustHold(t, s.Log(), 4, 7, 1)
}

// TestSegmentMadeInPartIsMadeAnew checks that a segment which a full disk or a crash left short has its space reserved
// after the next start. A node on a disk of 16 MiB became ready on such segments.
func TestSegmentMadeInPartIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	mustClose(t, mustOpen(t, Config{Dir: dir}))
	files := segmentFiles(t, dir)
	assert.MustEqual(t, len(files), 1, "a new log has the segments %q", files)
	whole := len(readFile(t, files[0]))
	for _, size := range []int{0, whole / 2} {
		assert.NoError(t, os.Truncate(files[0], int64(size)))
		mustClose(t, mustOpen(t, Config{Dir: dir}))
		if n := len(readFile(t, files[0])); n != whole {
			t.Errorf("a segment of %d bytes has %d bytes after the start, not %d", size, n, whole)
		}
	}
	s := mustOpen(t, Config{Dir: dir})
	mustStore(t, s, entries(1, 7, 1))
	mustHold(t, s.Log(), 1, 7, 1)
}

// unrotated makes a folder as a crash leaves it between the append that seals a segment and the record of the rotation.
// It returns the number of entries in the log and in the last append.
func unrotated(t *testing.T, dir string) (last, batch uint64) {
	t.Helper()
	meta := filepath.Join(dir, "wal", "wal-meta.db")
	before := 0
	for batch = 5; ; last += batch {
		s := mustOpen(t, Config{Dir: dir})
		old := readFile(t, meta)
		before = len(segmentFiles(t, dir))
		mustStore(t, s, entries(last+1, last+batch, 1))
		awaitIdle(t, s)
		mustClose(t, s)
		files := segmentFiles(t, dir)
		if len(files) == before {
			continue
		}
		writeFile(t, meta, old)
		assert.NoError(t, os.Remove(files[len(files)-1]))
		return last + batch, batch
	}
}

// awaitIdle waits for a rotation that may be under way.
func awaitIdle(t *testing.T, s *Stores) {
	t.Helper()
	assert.NoError(t, s.inner.(*walLog).filer.awaitRotation())
}

func TestInterruptedRotationIsFinished(t *testing.T) {
	dir := t.TempDir()
	last, _ := unrotated(t, dir)
	s := mustOpen(t, Config{Dir: dir})
	mustHold(t, s.Log(), 1, last, 1)
	mustStore(t, s, entries(last+1, last+200, 1))
	mustClose(t, s)
	mustHold(t, mustOpen(t, Config{Dir: dir}).Log(), 1, last+200, 1)
}

// TestTornSealIsCutOff checks that a torn write of the batch that seals a segment is cut off like any other.
func TestTornSealIsCutOff(t *testing.T) {
	damages := map[string]func(b []byte, scan segmentScan){
		"commit frame lost":   func(b []byte, s segmentScan) { clear(b[s.end-frameHeaderLen : s.end]) },
		"index half written":  func(b []byte, s segmentScan) { clear(b[s.indexStart+8 : s.end]) },
		"only commit written": func(b []byte, s segmentScan) { clear(b[s.indexStart-frameHeaderLen : s.end-frameHeaderLen]) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			last, batch := unrotated(t, dir)
			files := segmentFiles(t, dir)
			newest := files[len(files)-1]
			b := readFile(t, newest)
			damage(b, scanSegment(b))
			writeFile(t, newest, b)
			s := mustOpen(t, Config{Dir: dir})
			mustHold(t, s.Log(), 1, last-batch, 1)
			mustStore(t, s, entries(last-batch+1, last+50, 1))
			mustClose(t, s)
			mustHold(t, mustOpen(t, Config{Dir: dir}).Log(), 1, last+50, 1)
		})
	}
}

// TestDeletionWaitsForRotation checks that a deletion of all entries, right after the append that sealed a segment,
// does not meet that segment's rotation.
func TestDeletionWaitsForRotation(t *testing.T) {
	s := mustOpen(t, Config{Dir: t.TempDir(), segmentSize: 1024})
	var last uint64
	for range 100 {
		mustStore(t, s, entries(last+1, last+60, 1)) // more than a segment
		assert.NoError(t, s.Log().DeleteRange(last+1, last+60))
		mustHold(t, s.Log(), 0, 0, 0)
		last += 60
	}
	mustStore(t, s, entries(last+1, last+10, 1))
	mustHold(t, s.Log(), last+1, last+10, 1)
}

// faultyFiler fails the operations that the test selects.
type faultyFiler struct {
	types.SegmentFiler
	create, remove atomic.Bool
}

func (f *faultyFiler) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	if f.create.Load() {
		return nil, errDisk
	}
	return f.SegmentFiler.Create(info)
}

func (f *faultyFiler) Delete(base, id uint64) error {
	if f.remove.Load() {
		return errDisk
	}
	return f.SegmentFiler.Delete(base, id)
}

// TestBackgroundFailureIsFatal checks that a failure in the background, which raft-wal would only log, ends the process
// without waiting for the next write.
func TestBackgroundFailureIsFatal(t *testing.T) {
	for _, name := range []string{"rotation", "deletion"} {
		t.Run(name, func(t *testing.T) {
			dir, rec, faulty := t.TempDir(), newRecorder(), &faultyFiler{}
			s := mustOpen(t, Config{Dir: dir, Fatal: rec.fatal, wrapFiler: func(f types.SegmentFiler) types.SegmentFiler {
				faulty.SegmentFiler = f
				return faulty
			}})
			faulty.create.Store(name == "rotation")
			faulty.remove.Store(name == "deletion")
			// The append fills the first segment. If the rotation fails at once, the append returns the error, too.
			if err := s.Log().StoreLogs(entries(1, 200, 1)); err != nil && name == "deletion" {
				t.Fatal(err)
			}
			if name == "deletion" {
				awaitIdle(t, s)
				_ = s.Log().DeleteRange(1, 200)
			}
			<-rec.told
			if errs := rec.all(); len(errs) != 1 || !errors.Is(errs[0], errDisk) {
				t.Errorf("fatal errors: %v", errs)
			}
			assert.ErrorIs(t, s.Log().StoreLog(entry(201, 1)), errDisk, "next append")
			assert.ErrorIs(t, s.Log().DeleteRange(1, 1), errDisk, "next deletion")
			_ = s.Close()
			if name == "rotation" {
				mustHold(t, mustOpen(t, Config{Dir: dir}).Log(), 1, 200, 1)
			}
		})
	}
}

// TestFailureWhileOpeningIsReturned checks that Open returns a failure that raft-wal swallows, and that it is not
// fatal.
func TestFailureWhileOpeningIsReturned(t *testing.T) {
	rec := newRecorder()
	_, err := Open(testConfig(t, Config{Dir: t.TempDir(), Fatal: rec.fatal,
		wrapFiler: func(f types.SegmentFiler) types.SegmentFiler {
			faulty := &faultyFiler{SegmentFiler: f}
			faulty.create.Store(true)
			return faulty
		}}))
	if !errors.Is(err, errDisk) || len(rec.all()) != 0 {
		t.Errorf("error %v, fatal %v", err, rec.all())
	}
}
