package logstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft-wal/types"

	"github.com/belfryhq/belfry/internal/assert"
)

// slowRemoval delays deletions until the test allows them.
type slowRemoval struct {
	types.SegmentFiler
	begun chan struct{} // gets a token for each deletion
	allow chan struct{} // closed: deletions may end
}

func (f slowRemoval) Delete(base, id uint64) error {
	f.begun <- struct{}{}
	<-f.allow
	return f.SegmentFiler.Delete(base, id)
}

// TestNobodyWaitsForDeletions checks that a cut log accepts writes however long the disk takes to delete segments, and
// that Close waits for the deletion under way.
func TestNobodyWaitsForDeletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowRemoval{begun: make(chan struct{}, 100), allow: make(chan struct{})}
		cfg := Config{Dir: t.TempDir(), wrapFiler: func(f types.SegmentFiler) types.SegmentFiler {
			slow.SegmentFiler = f
			return slow
		}}
		s := mustOpen(t, cfg)
		mustStore(t, s, entries(1, 100, 1))
		for i := uint64(101); i < 1000; i += 100 {
			mustStore(t, s, entries(i, i+99, 1))
		}
		segments := len(segmentFiles(t, cfg.Dir))
		went := make(chan error, 1)
		go func() {
			err := s.Log().DeleteRange(1, 700)
			if err == nil {
				err = s.Log().StoreLogs(entries(1001, 1100, 1))
			}
			went <- err
		}()
		select {
		case err := <-went:
			assert.NoError(t, err)
		case <-time.After(30 * time.Second):
			close(slow.allow)
			t.Fatal("the log waits for the deletion of its segments")
		}
		<-slow.begun
		mustHold(t, s.Log(), 701, 1100, 1)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		select {
		case err := <-closed:
			t.Errorf("closed while a segment is being deleted: %v", err)
		case <-s.guard.failed: // Close has begun
		}
		close(slow.allow)
		assert.NoError(t, <-closed)
		// The segments left are deleted when the log is opened again.
		cfg.wrapFiler, cfg.SnapshotIndex = nil, 700
		s = mustOpen(t, cfg)
		assert.Equal(t, s.inner.(*walLog).filer.removals.wait(), nil)
		if left := len(segmentFiles(t, cfg.Dir)); left > segments/2 {
			t.Errorf("%d segments of %d are left", left, segments)
		}
		mustHold(t, s.Log(), 701, 1100, 1)
	})
}

// TestHungDeletion checks that Close does not wait for ever for a hung disk.
func TestHungDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(DefaultWriteTimeout, noFatal(t))
		r := removals{guard: g}
		begun, allow := make(chan struct{}), make(chan struct{})
		r.add(func() error { close(begun); <-allow; return nil })
		<-begun
		g.shut()
		assert.ErrorIs(t, r.wait(), ErrWriteTimeout, "a deletion hangs, and closing")
		close(allow)
		assert.Equal(t, r.wait(), nil)
	})
}
