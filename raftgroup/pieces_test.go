package raftgroup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/snapshots"
)

// slowWriter takes a millisecond per write, and no time to sync.
type slowWriter struct {
	bytes.Buffer
	syncs int
}

func (w *slowWriter) Sync() error {
	w.syncs++
	return nil
}

func (w *slowWriter) Write(b []byte) (int, error) {
	<-time.After(time.Millisecond)
	return w.Buffer.Write(b)
}

// TestPieceWriterRests checks that a writer's rests follow the time that it worked, and the urgency.
func TestPieceWriterRests(t *testing.T) {
	for urgency, share := range map[float64]time.Duration{1: calmShare, 1.49: calmShare, 1.5: pressedShare, 2: lateShare} {
		synctest.Test(t, func(t *testing.T) {
			var out slowWriter
			w := newPieceWriter(t.Context(), &out, func() float64 { return urgency })
			began := time.Now()
			piece := make([]byte, 64<<10)
			const pieces = 16
			for range pieces * pieceBytes / len(piece) {
				if _, err := w.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if took, worked := time.Since(began), 64*time.Millisecond; took != share*worked {
				t.Errorf("took %v for %v of work, with an urgency of %v", took, worked, urgency)
			}
			if out.Len() != pieces*pieceBytes {
				t.Errorf("%d bytes arrived", out.Len())
			}
			if out.syncs != pieces {
				t.Errorf("%d syncs of %d pieces", out.syncs, pieces)
			}
		})
	}
}

// TestPieceWriterStops checks that a stopping replica does not wait for the end of a snapshot's writing.
func TestPieceWriterStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newPieceWriter(ctx, &slowWriter{}, func() float64 { return 0 })
		time.AfterFunc(2*time.Millisecond, cancel)
		began := time.Now()
		if _, err := w.Write(make([]byte, pieceBytes)); !errors.Is(err, context.Canceled) {
			t.Errorf("wrote on: %v", err)
		}
		if took := time.Since(began); took != 2*time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
	})
}

// TestPiecesAreSynced checks that the store's snapshots are synced piece by piece.
func TestPiecesAreSynced(t *testing.T) {
	store, err := snapshots.Open(t.TempDir(), 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sink, err := store.Create(1, 1, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := sink.(syncer); !ok {
		t.Errorf("%T does not sync", sink)
	}
	if err := sink.Cancel(); err != nil {
		t.Fatal(err)
	}
}
