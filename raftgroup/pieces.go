package raftgroup

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/internal/wait"
)

const (
	pieceBytes = 256 << 10
	longRest   = 200 * time.Millisecond
	syncShare  = 3 // total time of a piece per time of its sync

	// Total time of a piece per time of its encoding, by urgency.
	calmShare    = 8
	pressedShare = 3 // from pressed on
	lateShare    = 1 // from SnapshotLate on
	pressed      = 1.5
)

// SnapshotLate is the urgency from which a snapshot is encoded without rests.
const SnapshotLate = 2

// share returns the total time per unit of work. All replicas of a group tend to write a snapshot at once, and a node's
// groups one after the other, so slow writing is best for the calls that wait meanwhile. But the log must not grow
// faster than the snapshot that cuts it is written.
func share(urgency float64) time.Duration {
	switch {
	case urgency < pressed:
		return calmShare
	case urgency < SnapshotLate:
		return pressedShare
	}
	return lateShare
}

// syncer is a writer that can sync its bytes to the disk.
type syncer interface{ Sync() error }

// pieceWriter writes a snapshot in pieces. It syncs each piece before the next, and then rests for some multiple of the
// time that this took. Raft itself syncs a snapshot once, at its end: tens of megabytes, behind which the next log
// entry of every group has to wait. Encoding without rests also takes a core away from the groups.
type pieceWriter struct {
	ctx     context.Context // its end stops the writing
	w       io.Writer       // a syncer if it is a file
	urgency func() float64
	bytes   int // bytes since the last rest
	began   time.Time
}

func newPieceWriter(ctx context.Context, w io.Writer, urgency func() float64) *pieceWriter {
	return &pieceWriter{ctx: ctx, w: w, urgency: urgency, began: time.Now()}
}

func (p *pieceWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.bytes += n; err != nil || p.bytes < pieceBytes {
		return n, err
	}
	worked := time.Since(p.began)
	if file, ok := p.w.(syncer); ok {
		if err := file.Sync(); err != nil {
			return n, err
		}
	}
	synced := time.Since(p.began) - worked
	if !wait.For(p.ctx, min((share(p.urgency())-1)*worked+(syncShare-1)*synced, longRest)) {
		return n, fmt.Errorf("the replica stops before it is whole: %w", context.Cause(p.ctx))
	}
	p.bytes, p.began = 0, time.Now()
	return n, nil
}
