package shard

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	pacedPiece = 256 << 10
	pacedRest  = 200 * time.Millisecond // the longest
	pacedSyncs = 3                      // one part syncing to this many of time

	// One part work to so many of time, by the pressure.
	pacedCalm    = 8
	pacedPressed = 3 // from half as much again on as makes a snapshot due
	pacedLate    = 1 // from this on
	pressureLate = 2
)

// pace is what a snapshot's writing is fitted to.
type pace struct {
	ctx      context.Context        // when it ends, so does the writing
	pressure func() float64         // how urgent it is: see snapshotPressure
	pathOf   func(id string) string // the file that a snapshot of this id is written to; "": it is not known, or none
}

// unpaced is for a replica that takes no snapshots of its own accord.
func unpaced() pace {
	return pace{context.Background(), func() float64 { return 0 }, func(string) string { return "" }}
}

// share is how many parts of time there are to one of work. All replicas of a shard tend to write a snapshot at once,
// and a node's shards one after the other; so little at a time is best for those who wait meanwhile. But what calls
// append to the logs must not outrun what is written for them to be cut.
func (p pace) share() time.Duration {
	switch pressure := p.pressure(); {
	case pressure < 1.5:
		return pacedCalm
	case pressure < pressureLate:
		return pacedPressed
	}
	return pacedLate
}

// pacedWriter writes a snapshot in pieces. It brings each to the disk before the next, and then rests for some times as
// long as that took. The raft library syncs a snapshot once, at its end: tens of megabytes at a time, behind which the
// next log entry of every group has to wait; and encoding without a pause takes a core away from them.
type pacedWriter struct {
	pace  pace
	w     io.Writer
	file  *os.File // the one that w writes; nil: there is none
	piece int      // bytes since the last rest
	began time.Time
}

// newPacedWriter opens the file that w, a snapshot of this id, is known to write.
func newPacedWriter(w io.Writer, id string, pace pace) (*pacedWriter, error) {
	p := &pacedWriter{pace: pace, w: w, began: time.Now()}
	path := pace.pathOf(id)
	if path == "" {
		return p, nil
	}
	var err error
	if p.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return p, nil
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.piece += n; err != nil || p.piece < pacedPiece {
		return n, err
	}
	worked := time.Since(p.began)
	if p.file != nil {
		if err := p.file.Sync(); err != nil {
			return n, err
		}
	}
	synced := time.Since(p.began) - worked
	if !sleep(p.pace.ctx, min((p.pace.share()-1)*worked+(pacedSyncs-1)*synced, pacedRest)) {
		return n, fmt.Errorf("snapshot: the replica stops before it is whole: %w", context.Cause(p.pace.ctx))
	}
	p.piece, p.began = 0, time.Now()
	return n, nil
}

// close lets go of the file; w is its owner's to close.
func (p *pacedWriter) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
