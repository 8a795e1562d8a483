package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// applier is the state machine that Raft gets, over the Machine. Raft calls it from one goroutine. All other goroutines
// use only the atomics.
type applier struct {
	name    string // of the group
	machine Machine
	fatal   func(error)
	ctx     context.Context // ends the writing of snapshots
	cfg     SnapshotConfig
	owner   Owner // nil: none
	failed  error // set once: no entry is applied any more

	steps      atomic.Uint64 // entries applied and snapshots restored
	appendedAt atomic.Int64  // when the leader appended the last entry applied, in Unix nanoseconds; 0: unknown
	bytes      atomic.Int64  // bytes of entries applied since the start
	saved      atomic.Int64  // value of bytes at the last snapshot
	fates      fates         // of the entries that this replica proposes
	tail       *tail
	grown      chan struct{} // capacity 1: a snapshot may be due
}

var _ raft.BatchingFSM = (*applier)(nil)

// failure is the answer to an entry that could not be applied.
type failure struct{ err error }

func newApplier(ctx context.Context, cfg Config, fatal func(error)) *applier {
	return &applier{
		name: cfg.Name, machine: cfg.Machine, fatal: fatal, ctx: ctx, cfg: cfg.Snapshots, owner: cfg.Owner,
		tail: newTail(max(cfg.Snapshots.Tail, 1)), grown: make(chan struct{}, 1),
	}
}

// ApplyBatch applies committed entries in order. Changes of membership are among them: Raft lets an idle group take a
// snapshot after such a change only if the state machine receives it.
func (a *applier) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		answers[i] = a.Apply(l)
	}
	if a.cfg.Bytes > 0 && a.logBytes() >= a.cfg.Bytes {
		wake(a.grown)
	}
	return answers
}

// Apply applies one committed entry.
func (a *applier) Apply(l *raft.Log) any {
	if a.failed != nil {
		return failure{a.failed}
	}
	answer, err := a.machine.Apply(EntryOf(l))
	if err != nil {
		a.failed = fmt.Errorf("%s: log entry %d of term %d: %w", a.name, l.Index, l.Term, err)
		go a.fatal(a.failed) // fatal may wait for this goroutine
		return failure{a.failed}
	}
	a.bytes.Add(int64(len(l.Data)))
	a.tail.add(len(l.Data))
	if !l.AppendedAt.IsZero() {
		a.appendedAt.Store(l.AppendedAt.UnixNano())
	}
	a.steps.Add(1)
	a.fates.see(l.Index, l.Data, answer)
	return answer
}

// Snapshot marks the machine's present state. Raft calls it between two entries.
func (a *applier) Snapshot() (raft.FSMSnapshot, error) {
	if a.failed != nil {
		return nil, a.failed
	}
	marked, err := a.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return snapshot{marked, a.ctx, a.owner}, nil
}

// Restore replaces the machine's state. Raft closes the source.
func (a *applier) Restore(source io.ReadCloser) error {
	if a.failed != nil {
		return a.failed
	}
	if err := a.machine.Restore(source); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	a.saved.Store(a.bytes.Load())
	a.steps.Add(1)
	a.fates.cover()
	return nil
}

// logBytes returns the bytes applied since the last snapshot.
func (a *applier) logBytes() int64 { return a.bytes.Load() - a.saved.Load() }

// snapshot is one marked state on its way to a sink.
type snapshot struct {
	Snapshot
	ctx   context.Context
	owner Owner
}

// Persist writes the state to sink, and closes or cancels it.
func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (s snapshot) write(sink raft.SnapshotSink) error {
	var w io.Writer = sink
	if s.owner != nil {
		w = newPieceWriter(s.ctx, sink, s.owner.Urgency)
	}
	if _, err := s.WriteTo(w); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// wake puts a token into a channel of capacity one, unless the channel holds one already.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
