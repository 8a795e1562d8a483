package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// snapshotMagic begins every snapshot, with its format's version as the last byte.
const snapshotMagic = "belfry-\x01"

// snapshotHeaderBytes: the magic, and index and term in big endian.
const snapshotHeaderBytes = len(snapshotMagic) + 16

// snapshot is one marked state of the machine, on its way to a file. Persist runs beside further entries, and perhaps a
// Restore; Release may come without it.
type snapshot struct {
	index, term uint64
	machine     *fsm.Snapshot
}

// WriteTo writes header and state.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	header := make([]byte, 0, snapshotHeaderBytes)
	header = append(header, snapshotMagic...)
	header = binary.BigEndian.AppendUint64(header, s.index)
	header = binary.BigEndian.AppendUint64(header, s.term)
	n, err := w.Write(header)
	if err != nil {
		return int64(n), err
	}
	written, err := s.machine.WriteTo(w)
	return int64(n) + written, err
}

// Release ends the tracking of what changed since.
func (s *snapshot) Release() { s.machine.Release() }

func readSnapshotHeader(r io.Reader) (index, term uint64, err error) {
	header := make([]byte, snapshotHeaderBytes)
	if _, err := io.ReadFull(r, header); err != nil {
		return 0, 0, fmt.Errorf("snapshot header: %w", err)
	}
	magic, rest := string(header[:len(snapshotMagic)]), header[len(snapshotMagic):]
	if magic != snapshotMagic {
		return 0, 0, fmt.Errorf("snapshot begins with %q, and this build reads %q", magic, snapshotMagic)
	}
	return binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:]), nil
}

// ReadSnapshot makes a machine of a snapshot that some replica of a shard has written, and tells for which Raft index
// it stands.
func ReadSnapshot(shard uint32, r io.Reader) (m *fsm.Machine, index uint64, err error) {
	index, _, err = readSnapshotHeader(r)
	if err != nil {
		return nil, 0, err
	}
	m = fsm.New(shard)
	return m, index, m.Restore(r)
}

// snapshotRetry is how long a failed snapshot waits before the next try.
const snapshotRetry = 10 * time.Second

// snapshotter takes a snapshot whenever enough log has piled up. Raft's own trigger counts entries, which may be a few
// bytes or a megabyte. A barred replica takes none: its state is wrong, and the log that it was made of, on the last
// snapshot from before, may yet give the right one.
func (s *Shard) snapshotter(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.group.Grown():
		}
		if !s.snapshotDue() || s.standing.now() == Barred {
			continue
		}
		if err := s.takeSnapshot(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("no snapshot taken", "err", err, "retry", snapshotRetry)
			sleep(ctx, snapshotRetry)
		}
	}
}

func (s *Shard) snapshotDue() bool { return s.logOutgrown() >= 1 }

// logOutgrown weighs the log against the state: writing a snapshot costs as much as its state is large, so that the log
// may grow as large before the next one. From 1 on that is due.
func (s *Shard) logOutgrown() float64 {
	state := s.cfg.SnapshotPart * float64(s.machine.Counts().Bytes)
	return float64(s.group.LogBytes()) / max(float64(s.cfg.SnapshotLog), state)
}

// snapshotUrgency returns how many times the log has the size that made a snapshot due. A node without memory for more
// tasks is in the greatest hurry: memory freed while a snapshot is written stays in use until that is done.
func (s *Shard) snapshotUrgency() float64 {
	if errors.Is(s.lacking(), task.ErrNoMemory) {
		return raftgroup.SnapshotLate
	}
	return s.logOutgrown()
}

func (s *Shard) takeSnapshot(ctx context.Context) error {
	if gate := s.cfg.SnapshotGate; gate != nil {
		if err := gate.Acquire(ctx, 1); err != nil {
			return err
		}
		defer gate.Release(1)
	}
	if err := s.checkSnapshotRoom(); err != nil {
		return err
	}
	began := time.Now()
	if err := s.group.Snapshot(); err != nil {
		return err
	}
	s.metrics.snapshotTaken(time.Since(began))
	return nil
}

// sleep waits for d, or for ctx, and tells whether ctx is still good.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
