package shard

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm"
)

// applier is what Raft sees of the machine. Raft calls it from one goroutine; the atomics are for everybody else.
type applier struct {
	machine *fsm.Machine
	fatal   func(error)
	failed  error // set once; from then on nothing is applied

	// index and term of the last entry that the machine has applied. Raft's own AppliedIndex runs ahead: it counts what
	// was handed over, not what was applied.
	index, term atomic.Uint64
	restores    atomic.Uint64 // times that the machine was replaced by a snapshot's
	appendedAt  atomic.Int64  // when its leader appended it, in Unix nanoseconds; 0: unknown
	logBytes    atomic.Int64  // applied since the last snapshot
	tail        *tail
	wanted      atomic.Bool   // a leadership of this node runs, and may be waiting for results
	enoughLog   int64         // from here on a snapshot may be due
	grown       chan struct{} // capacity 1: there is enough log

	pace        pace // of snapshots
	checkpoints *checkpoints
}

var _ raft.BatchingFSM = (*applier)(nil)

// applied answers an entry to the one who proposed it on this node, and to nobody else: Raft keeps the proposer's
// future for entries of its own term only. So grants reach no follower and no other leadership.
type applied struct {
	index, term uint64
	fsm.Applied
	err error
}

func newApplier(machine *fsm.Machine, enoughLog int64, fatal func(error)) *applier {
	return &applier{
		machine: machine, enoughLog: enoughLog, fatal: fatal, grown: make(chan struct{}, 1),
		pace: unpaced(), checkpoints: newCheckpoints(), tail: newTail(defaultSnapshotTail),
	}
}

// ApplyBatch applies committed entries in order. It is also told of membership changes, so that Raft can snapshot an
// idle group after one.
func (a *applier) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		answers[i] = a.Apply(l)
	}
	if a.logBytes.Load() >= a.enoughLog {
		wake(a.grown)
	}
	return answers
}

// Apply applies one committed entry.
func (a *applier) Apply(l *raft.Log) any {
	if a.failed != nil {
		return applied{err: a.failed}
	}
	answer := applied{index: l.Index, term: l.Term}
	if l.Type == raft.LogCommand {
		answer.Applied, answer.err = a.machine.Apply(l.Data, a.wanted.Load())
		if answer.err != nil {
			a.fail(fmt.Errorf("log entry %d of term %d: %w", l.Index, l.Term, answer.err))
			return answer
		}
	}
	a.advanceTo(l)
	return answer
}

func (a *applier) advanceTo(l *raft.Log) {
	a.logBytes.Add(int64(len(l.Data)))
	a.tail.add(len(l.Data))
	if !l.AppendedAt.IsZero() {
		a.appendedAt.Store(l.AppendedAt.UnixNano())
	}
	a.term.Store(l.Term)
	a.index.Store(l.Index)
	a.checkpoints.add(a.checkpoint(l.Index))
}

// checkpoint is called where the machine is changed, and nowhere else: what is hashed is the state after this index.
func (a *applier) checkpoint(index uint64) Checkpoint {
	commands, sum := a.machine.Hash()
	return Checkpoint{Index: index, Commands: commands, Sum: sum}
}

// fail stops applying for good: an entry that was skipped would make this replica differ from the others.
func (a *applier) fail(err error) {
	a.failed = err
	go a.fatal(err) // it may want to wait for this goroutine
}

// Snapshot is called between two entries; it only marks where the machine stands.
func (a *applier) Snapshot() (raft.FSMSnapshot, error) {
	if a.failed != nil {
		return nil, a.failed
	}
	return &snapshot{
		index: a.index.Load(), term: a.term.Load(), machine: a.machine.Snapshot(), pace: a.pace,
	}, nil
}

// Restore replaces the machine's state. The machine builds the new one aside; on an error it keeps the old one. Raft
// closes the source.
func (a *applier) Restore(source io.ReadCloser) error {
	if a.failed != nil {
		return a.failed
	}
	index, term, err := readSnapshotHeader(source)
	if err == nil {
		err = a.machine.Restore(source)
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	a.index.Store(index)
	a.term.Store(term)
	a.logBytes.Store(0)
	a.checkpoints.restart(a.checkpoint(index))
	a.restores.Add(1)
	return nil
}

// wake tells whoever waits on a channel of capacity one that there is something to look at.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// age returns how long ago the leader appended the last entry applied here; ok is false if that is not known.
func (a *applier) age(now time.Time) (_ time.Duration, ok bool) {
	at := a.appendedAt.Load()
	return now.Sub(time.Unix(0, at)), at != 0
}
