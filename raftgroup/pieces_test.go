package raftgroup

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
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
				_, err := w.Write(piece)
				assert.NoError(t, err)
			}
			if took, worked := time.Since(began), 64*time.Millisecond; took != share*worked {
				t.Errorf("took %v for %v of work, with an urgency of %v", took, worked, urgency)
			}
			assert.Equal(t, out.Len(), pieces*pieceBytes, "bytes arrived")
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
		_, err := w.Write(make([]byte, pieceBytes))
		assert.ErrorIs(t, err, context.Canceled, "wrote on")
		assert.Equal(t, time.Since(began), 2*time.Millisecond, "stopped after")
	})
}

// TestPiecesAreSynced checks that the store's snapshots are synced piece by piece.
func TestPiecesAreSynced(t *testing.T) {
	store, err := snapshots.Open(t.TempDir(), 2, slog.New(slog.DiscardHandler))
	assert.NoError(t, err)
	sink, err := store.Create(1, 1, 1, raft.Configuration{}, 1, nil)
	assert.NoError(t, err)
	if _, ok := sink.(syncer); !ok {
		t.Errorf("%T does not sync", sink)
	}
	assert.NoError(t, sink.Cancel())
}
