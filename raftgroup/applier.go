package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// applier is the state machine that Raft gets, over the Machine. Raft calls it from one goroutine, and a start's replay
// from another one. All other goroutines use only the atomics.
type applier struct {
	name    string // of the group
	machine Machine
	fatal   func(error)
	ctx     context.Context // ends the writing of snapshots
	cfg     SnapshotConfig
	owner   Owner // nil: none

	mu        sync.Mutex // held while the machine is called
	failed    error      // set once: no entry is applied any more
	replaying bool       // the state grows out of the one that Raft started from; a leader has not replaced it
	last      uint64     // index of the last entry in the state; 0: not known
	given     uint64     // index of the last entry that Raft gave; less than last while the replay is ahead

	steps atomic.Uint64 // entries applied and snapshots restored
	bytes atomic.Int64  // bytes of entries applied since the start
	saved atomic.Int64  // value of bytes at the last snapshot
	fates fates         // of the entries that this replica proposes
	tail  *tail
	grown chan struct{} // capacity 1: a snapshot may be due
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
	if a.cfg.Bytes > 0 && a.logBytes() >= a.cfg.Bytes && !a.isAhead() {
		wake(a.grown)
	}
	return answers
}

// Apply applies one committed entry, unless the replay has applied it.
func (a *applier) Apply(l *raft.Log) any {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.given = l.Index
	if l.Index <= a.last {
		return nil
	}
	return a.apply(l)
}

// beginReplay allows calls of replay for the entries after an index, which is that of the state that Raft started from.
func (a *applier) beginReplay(after uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replaying, a.last, a.given = true, max(a.last, after), max(a.given, after)
}

// replay applies an entry that an earlier process has applied. It reports false if Raft has given the entry or replaced
// the state meanwhile, or no entry is applied any more.
func (a *applier) replay(l *raft.Log) bool {
	if !isForMachine(l) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.replaying || l.Index <= a.last || a.failed != nil {
		return false
	}
	a.apply(l)
	return true
}

// isForMachine reports whether Raft gives an entry to its state machine.
func isForMachine(l *raft.Log) bool {
	return l.Type == raft.LogCommand || l.Type == raft.LogConfiguration
}

// lastApplied returns the index of the last entry in the state.
func (a *applier) lastApplied() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// apply applies an entry. The caller holds the lock.
func (a *applier) apply(l *raft.Log) any {
	if a.failed != nil {
		return failure{a.failed}
	}
	a.last = l.Index
	answer, err := a.machine.Apply(EntryOf(l))
	if err != nil {
		a.failed = fmt.Errorf("%s: log entry %d of term %d: %w", a.name, l.Index, l.Term, err)
		go a.fatal(a.failed) // fatal may wait for this goroutine
		return failure{a.failed}
	}
	a.bytes.Add(int64(len(l.Data)))
	a.tail.add(len(l.Data))
	a.steps.Add(1)
	a.fates.see(l.Index, l.Data, answer)
	return answer
}

// errAhead is the error of a snapshot that Raft would file under an older entry than the last one in the state.
var errAhead = errors.New("raft has not given the entries again that were applied before the restart")

// isAhead reports whether the state has entries that Raft has not given yet.
func (a *applier) isAhead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.given < a.last
}

// Snapshot marks the machine's present state. Raft calls it between two entries.
func (a *applier) Snapshot() (raft.FSMSnapshot, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.failed != nil:
		return nil, a.failed
	case a.given < a.last:
		return nil, errAhead
	}
	marked, err := a.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return snapshot{marked, a.ctx, a.owner}, nil
}

// Restore replaces the machine's state. Raft closes the source.
func (a *applier) Restore(source io.ReadCloser) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed != nil {
		return a.failed
	}
	if err := a.machine.Restore(source); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	a.replaying, a.last, a.given = false, 0, 0
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
