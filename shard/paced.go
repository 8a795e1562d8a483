package shard

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	pacedPiece = 256 << 10
	pacedShare = 3                      // one part work to this many of time
	pacedRest  = 200 * time.Millisecond // the longest
)

// pacedWriter writes a snapshot in pieces. It brings each to the disk before the next, and then rests twice as long as
// that took. The raft library syncs a snapshot once, at its end: tens of megabytes at a time, behind which the next log
// entry of every group has to wait; and encoding without a pause takes a core away from them.
type pacedWriter struct {
	w     io.Writer
	file  *os.File // the one that w writes; nil: there is none
	piece int      // bytes since the last rest
	began time.Time
}

// newPacedWriter opens the file that w is known to write; path "": none.
func newPacedWriter(w io.Writer, path string) (*pacedWriter, error) {
	p := &pacedWriter{w: w, began: time.Now()}
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
	if p.file != nil {
		if err := p.file.Sync(); err != nil {
			return n, err
		}
	}
	time.Sleep(min((pacedShare-1)*time.Since(p.began), pacedRest))
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
