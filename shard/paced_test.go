package shard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/snapshots"
)

// slowWriter takes a millisecond a write.
type slowWriter struct{ bytes.Buffer }

func (w *slowWriter) Write(b []byte) (int, error) {
	<-time.After(time.Millisecond)
	return w.Buffer.Write(b)
}

// How long a writer rests depends on how long it worked, and on how far the log has outgrown the state.
func TestPacedWriterRests(t *testing.T) {
	for outgrown, share := range map[float64]time.Duration{1: pacedCalm, 1.49: pacedCalm, 1.5: pacedPressed, 2: pacedLate} {
		synctest.Test(t, func(t *testing.T) {
			var out slowWriter
			pace := unpaced()
			pace.pressure = func() float64 { return outgrown }
			w, err := newPacedWriter(&out, "", pace)
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
			if took, worked := time.Since(began), 64*time.Millisecond; took != share*worked {
				t.Errorf("took %v for %v of work, with a log of %v", took, worked, outgrown)
			}
			if out.Len() != pieces*pacedPiece {
				t.Errorf("%d bytes arrived", out.Len())
			}
		})
	}
}

// A replica that stops does not wait for a snapshot to be written to its end.
func TestPacedWriterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pace := unpaced()
		pace.ctx = ctx
		w, err := newPacedWriter(&slowWriter{}, "", pace)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Millisecond, cancel)
		began := time.Now()
		if _, err := w.Write(make([]byte, pacedPiece)); !errors.Is(err, context.Canceled) {
			t.Errorf("wrote on: %v", err)
		}
		if took := time.Since(began); took != 2*time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
	})
}

// The file it brings to the disk is the one that raft's file store is writing: if that library moves it, snapshots must
// fail here and not quietly go back to one sync at the end.
func TestPacedWriterKnowsTheFile(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	store, err := snapshots.Open(cfg.Dir, 2, cfg.Logger)
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
	if _, err := newPacedWriter(sink, "elsewhere", pace{pathOf: cfg.snapshotPath}); err == nil {
		t.Error("a file that is not there was opened")
	}
	if err := sink.Cancel(); err != nil {
		t.Fatal(err)
	}
}
