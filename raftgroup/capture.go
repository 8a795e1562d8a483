package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Captured is a snapshot that is open for reading. Its content stays readable although Raft deletes the snapshot
// meanwhile. The caller closes it.
type Captured struct {
	io.ReadCloser
	Index, Term uint64 // of the last entry that the state has
	Bytes       int64
}

// Capture takes a snapshot and opens it. So a slow reader of the state holds a file open, and no memory. The snapshot
// cuts the log as any other does. It goes on after the end of ctx.
func (g *Group) Capture(ctx context.Context) (*Captured, error) {
	if err := g.snapshot(ctx); err != nil {
		return nil, err
	}
	snapshots := g.cfg.Storage.Snapshots()
	list, err := snapshots.List()
	if err == nil && len(list) == 0 {
		err = errors.New("there is no snapshot")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: capture: %w", g.cfg.Name, err)
	}
	meta, content, err := snapshots.Open(list[0].ID) // reads it whole and compares its checksum
	if err != nil {
		return nil, fmt.Errorf("%s: capture: %w", g.cfg.Name, err)
	}
	return &Captured{ReadCloser: content, Index: meta.Index, Term: meta.Term, Bytes: meta.Size}, nil
}
