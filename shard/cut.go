package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/raftgroup"
)

// Cut is the shard's state right after one entry of its log, as a snapshot, open for reading. The caller closes it.
type Cut struct {
	io.Reader
	Index, Term uint64    // of the entry
	At          time.Time // the leader's wall clock just before the cut: all that was acknowledged by then is in the state
	NowMs       int64     // the shard's own time
	PositionMs  int64     // instant to which the wheel had been advanced
	Bytes       int64     // length of the snapshot
	// Lacks are the slots whose tasks are not all in the state, because they move to this shard or have moved away.
	Lacks []*fsmpb.SlotRange

	file io.Closer
}

// Close closes the snapshot.
func (c *Cut) Close() error { return c.file.Close() }

// Cut makes a snapshot of the shard and opens it. It returns a *task.NotLeaderError on replicas that do not lead.
//
// A slow reader of the cut holds a file on the disk and nothing else: not the log, not memory, and no other snapshot.
func (s *Shard) Cut(ctx context.Context) (*Cut, error) {
	l, err := s.leadership(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.awaitReady(ctx); err != nil {
		return nil, err
	}
	captured, at, err := s.snapshots.capture(ctx)
	if err != nil {
		return nil, fmt.Errorf("shard %d: %w", s.cfg.ID, err)
	}
	cut, err := cutOf(captured)
	if err == nil {
		err = l.verifier.verify(ctx) // no other leader can have acknowledged anything before the cut
	}
	if err != nil {
		return nil, errors.Join(err, captured.Close())
	}
	cut.At = at
	return cut, nil
}

// cutOf reads the headers of a snapshot, and returns a cut whose reader begins with them again.
func cutOf(captured *raftgroup.Captured) (*Cut, error) {
	var read bytes.Buffer
	from := io.TeeReader(captured, &read)
	index, term, err := readSnapshotHeader(from)
	if err != nil {
		return nil, err
	}
	header, err := fsm.ReadHeader(from)
	if err != nil {
		return nil, err
	}
	return &Cut{
		Reader: io.MultiReader(&read, captured), Index: index, Term: term,
		NowMs: header.NowMs, PositionMs: header.PositionMs, Bytes: captured.Bytes, file: captured,
		Lacks: lacking(header.Slots),
	}, nil
}

// lacking returns the slots that the shard does not own, by the states of its slots. The control group's map decides on
// slots without a state.
func lacking(slots []*fsmpb.SlotState) (lacks []*fsmpb.SlotRange) {
	for _, s := range slots {
		if s.Phase == fsmpb.SlotPhase_SLOT_PHASE_COMING || s.Phase == fsmpb.SlotPhase_SLOT_PHASE_GONE {
			lacks = append(lacks, &fsmpb.SlotRange{First: s.First, End: s.End})
		}
	}
	return lacks
}
