package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/raftgroup"
)

// snapshotMagic begins every snapshot. Its last byte is the version of the format.
const snapshotMagic = "belfry-\x01"

// snapshotHeaderBytes is the size of the magic, and of index and term in big endian.
const snapshotHeaderBytes = len(snapshotMagic) + 16

// snapshot is one marked state of the machine on its way to a file. WriteTo runs beside further entries and perhaps a
// Restore. Release may come without a WriteTo.
type snapshot struct {
	index, term uint64
	machine     *fsm.Snapshot
	begin       func(index uint64) // called before the state is written; nil: nothing
}

// WriteTo writes the header and the state.
func (s *snapshot) WriteTo(w io.Writer) (int64, error) {
	if s.begin != nil {
		s.begin(s.index)
	}
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

// WriteSnapshot writes a machine's state as the snapshot of a replica that has applied the log up to an entry.
func WriteSnapshot(w io.Writer, m *fsm.Machine, index, term uint64) error {
	s := snapshot{index: index, term: term, machine: m.Snapshot()}
	defer s.Release()
	_, err := s.WriteTo(w)
	return err
}

// ReadTasks reads a snapshot task by task: see fsm.ReadTasks.
func ReadTasks(r io.Reader, begin func(*fsmpb.SnapshotHeader) error, add func(*fsmpb.SnapshotTask) error) error {
	if _, _, err := readSnapshotHeader(r); err != nil {
		return err
	}
	return fsm.ReadTasks(r, begin, add)
}

// Release ends the tracking of changes since the mark.
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

// ReadSnapshot builds a machine from a snapshot of any replica of the shard, and returns the snapshot's Raft index.
func ReadSnapshot(shard uint32, r io.Reader) (m *fsm.Machine, index uint64, err error) {
	index, _, err = readSnapshotHeader(r)
	if err != nil {
		return nil, 0, err
	}
	m = fsm.New(shard)
	return m, index, m.Restore(r)
}

// snapshotRetry is the pause after a failed snapshot.
const snapshotRetry = 10 * time.Second

// snapshotter takes the snapshots of a replica, one at a time on its node and while the disk has room.
type snapshotter struct{ shard *Shard }

// run takes a snapshot whenever the log has grown enough. Raft's own trigger counts entries, each of which may be a few
// bytes or a megabyte. A barred replica takes none: its state is wrong, and its log on top of the last good snapshot
// may yet rebuild the right state.
func (t snapshotter) run(ctx context.Context) {
	s := t.shard
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.group.Grown():
		}
		if t.outgrown() < 1 || s.standing.now() == Barred {
			continue
		}
		if err := t.take(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("no snapshot taken", "err", err, "retry", snapshotRetry)
			wait.For(ctx, snapshotRetry)
		}
	}
}

// outgrown returns the ratio of the log's size to the size that makes a snapshot due. Writing a snapshot costs as much
// as the state is large, so the due size grows with the state.
func (t snapshotter) outgrown() float64 {
	s := t.shard
	state := s.cfg.SnapshotPart * float64(s.machine.Counts().Bytes)
	return float64(s.group.LogBytes()) / max(float64(s.cfg.SnapshotLog), state)
}

func (t snapshotter) take(ctx context.Context) error { return t.inTurn(ctx, t.shard.group.Snapshot) }

// capture takes and opens a snapshot when it is the shard's turn, and returns the time just before.
func (t snapshotter) capture(ctx context.Context) (captured *raftgroup.Captured, at time.Time, err error) {
	err = t.inTurn(ctx, func() error {
		at, _ = t.shard.clock.now()
		captured, err = t.shard.group.Capture(ctx)
		return err
	})
	return captured, at, err
}

// inTurn calls take when it is this shard's turn to take a snapshot and the disk has room for one.
func (t snapshotter) inTurn(ctx context.Context, take func() error) error {
	if gate := t.shard.cfg.SnapshotGate; gate != nil {
		if err := gate.Acquire(ctx, 1); err != nil {
			return err
		}
		defer gate.Release(1)
	}
	if err := t.checkRoom(); err != nil {
		return err
	}
	began := time.Now()
	if err := take(); err != nil {
		return err
	}
	t.shard.metrics.snapshotTaken(time.Since(began))
	return nil
}

// checkRoom returns an error if the disk has no room for a snapshot. A snapshot that fills the disk would end the
// process, since Raft could not write the log any more. The log stays as long as it is.
func (t snapshotter) checkRoom() error {
	size := t.shard.machine.Counts().Bytes
	if !t.shard.cfg.Node.Fits(size) {
		return fmt.Errorf("no room on the disk for a snapshot of about %d MiB", size>>20+1)
	}
	return nil
}
