package shard

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// slowWriter takes a millisecond a write.
type slowWriter struct{ bytes.Buffer }

func (w *slowWriter) Write(b []byte) (int, error) {
	<-time.After(time.Millisecond)
	return w.Buffer.Write(b)
}

// A writer that works a third of the time leaves the rest to others.
func TestPacedWriterRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out slowWriter
		w, err := newPacedWriter(&out, "")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		piece := make([]byte, 64<<10)
		const pieces = 16
		for range pieces * pacedPiece / len(piece) {
			if _, err := w.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if took, worked := time.Since(began), 64*time.Millisecond; took != pacedShare*worked {
			t.Errorf("took %v for %v of work", took, worked)
		}
		if out.Len() != pieces*pacedPiece {
			t.Errorf("%d bytes arrived", out.Len())
		}
	})
}

// The file it brings to the disk is the one that raft's file store is writing: if that library moves it, snapshots must
// fail here and not quietly go back to one sync at the end.
func TestPacedWriterKnowsTheFile(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	store, err := (&Shard{cfg: cfg}).openSnapshots()
	if err != nil {
		t.Fatal(err)
	}
	sink, err := store.Create(1, 1, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.snapshotPath(sink.ID())); err != nil {
		t.Error(err)
	}
	if _, err := newPacedWriter(sink, filepath.Join(cfg.Dir, "elsewhere")); err == nil {
		t.Error("a file that is not there was opened")
	}
	if err := sink.Cancel(); err != nil {
		t.Fatal(err)
	}
}
