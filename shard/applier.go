package shard

import (
	"io"
	"sync/atomic"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/raftgroup"
)

// applier is the machine as its Raft group sees it. The group calls it from one goroutine; the atomics are for all
// others.
type applier struct {
	machine *fsm.Machine

	// index and term of the last entry that the machine has applied. Raft's own AppliedIndex runs ahead: it counts the
	// entries that were handed over.
	index, term atomic.Uint64
	restores    atomic.Uint64 // times that the machine was replaced by a snapshot's
	wanted      atomic.Bool   // a leadership of this node runs, and may be waiting for results
	checkpoints *checkpoints
}

var _ raftgroup.Machine = (*applier)(nil)

// applied answers an entry to its proposer on this node, and nowhere else: Raft keeps the proposer's future for entries
// of its own term only. So grants reach no follower and no other leadership.
type applied struct {
	index, term uint64
	fsm.Applied
}

func newApplier(machine *fsm.Machine) *applier {
	return &applier{machine: machine, checkpoints: newCheckpoints()}
}

// Apply applies one committed entry. An answer is an applied.
func (a *applier) Apply(e raftgroup.Entry) (any, error) {
	answer := applied{index: e.Index, term: e.Term}
	if e.Command {
		var err error
		if answer.Applied, err = a.machine.Apply(e.Data, a.wanted.Load()); err != nil {
			return nil, err
		}
	}
	a.term.Store(e.Term)
	a.index.Store(e.Index)
	a.checkpoints.add(a.checkpoint(e.Index))
	return answer, nil
}

// checkpoint is called where the machine is changed, and nowhere else: it hashes the state after this index.
func (a *applier) checkpoint(index uint64) Checkpoint {
	commands, sum := a.machine.Hash()
	return Checkpoint{Index: index, Commands: commands, Sum: sum}
}

// Snapshot is called between two entries; it only marks where the machine stands.
func (a *applier) Snapshot() (raftgroup.Snapshot, error) {
	return &snapshot{index: a.index.Load(), term: a.term.Load(), machine: a.machine.Snapshot()}, nil
}

// Restore replaces the machine's state. The machine builds the new one aside; after an error it keeps the old one.
func (a *applier) Restore(source io.Reader) error {
	index, term, err := readSnapshotHeader(source)
	if err == nil {
		err = a.machine.Restore(source)
	}
	if err != nil {
		return err
	}
	a.index.Store(index)
	a.term.Store(term)
	a.checkpoints.restart(a.checkpoint(index))
	a.restores.Add(1)
	return nil
}

// wake puts a token into a channel of capacity one, unless there is one.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Replay makes a replica's state from its snapshots and log, without a Raft group: for looking at a node that is
// stopped. Its Restore checks a snapshot against the hash in the trailer; its Apply carries out one entry of the log.
// After an error of Apply no further entry may be applied.
type Replay struct{ *applier }

// NewReplay begins with an empty state.
func NewReplay(shard uint32) *Replay { return &Replay{newApplier(fsm.New(shard))} }

// State returns the state's hash and counts.
func (r *Replay) State() (Checkpoint, fsm.Counts) {
	return r.checkpoints.newest(), r.machine.Counts()
}
