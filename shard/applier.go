package shard

import (
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/shard/internal/activity"
)

// applier is the state machine that a shard gives to its Raft group. The group calls it from one goroutine. All other
// goroutines read only its atomics.
type applier struct {
	machine *fsm.Machine

	// index and term are those of the last entry that the machine has applied. Raft's own AppliedIndex runs ahead: it
	// counts the entries that Raft has handed over.
	index, term atomic.Uint64
	restores    atomic.Uint64 // times that a snapshot replaced the machine's state
	wanted      atomic.Int32  // the leaderships and lost entries of this node that may be waiting for results
	checkpoints *checkpoints
	chronicle   chronicle
	activity    activity.Log
}

var _ raftgroup.Machine = (*applier)(nil)

// applied is the answer to a committed entry. Only the proposer on this node gets it, because Raft keeps the proposer's
// future for entries of its own term alone. So grants reach no follower and no other leadership.
type applied struct {
	index, term uint64
	fsm.Applied
}

func newApplier(machine *fsm.Machine) *applier {
	return &applier{machine: machine, checkpoints: newCheckpoints()}
}

// keep counts the events of the entries, and hands them to a history; nil: there is none.
func (a *applier) keep(h History, logger *slog.Logger) {
	a.chronicle = chronicle{history: h, logger: logger}
	if h == nil {
		a.machine.Observe(a.activity.Count)
		return
	}
	a.machine.Observe(func(e *task.Event) {
		a.activity.Count(e)
		a.chronicle.events = append(a.chronicle.events, *e)
	})
}

// Apply applies one committed entry and returns an applied.
func (a *applier) Apply(e raftgroup.Entry) (any, error) {
	answer := applied{index: e.Index, term: e.Term}
	if e.Command {
		var err error
		if answer.Applied, err = a.machine.Apply(e.Data, a.wanted.Load() > 0); err != nil {
			return nil, err
		}
	}
	a.chronicle.applied(e.Index)
	a.term.Store(e.Term)
	a.index.Store(e.Index)
	a.checkpoints.add(a.checkpoint(e.Index))
	return answer, nil
}

// checkpoint hashes the machine's state after the entry at index. Only the goroutine that changes the machine calls it.
func (a *applier) checkpoint(index uint64) Checkpoint {
	commands, sum := a.machine.Hash()
	return Checkpoint{Index: index, Commands: commands, Sum: sum}
}

// Snapshot marks the machine's present state. Raft calls it between two entries.
func (a *applier) Snapshot() (raftgroup.Snapshot, error) {
	return &snapshot{
		index: a.index.Load(), term: a.term.Load(), machine: a.machine.Snapshot(), begin: a.chronicle.sync,
	}, nil
}

// Restore replaces the machine's state with the snapshot's. The machine builds the new state aside and keeps the old
// one on an error.
func (a *applier) Restore(source io.Reader) error {
	index, term, err := readSnapshotHeader(source)
	if err == nil {
		err = a.machine.Restore(source)
	}
	if err != nil {
		return err
	}
	a.chronicle.restored(index)
	a.activity.Restart()
	a.index.Store(index)
	a.term.Store(term)
	a.checkpoints.restart(a.checkpoint(index))
	a.restores.Add(1)
	return nil
}

// wake puts a token into a channel of capacity one, unless the channel holds one already.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Replay rebuilds a replica's state from its snapshots and log without a Raft group, to inspect a stopped node. Restore
// checks a snapshot against the hash in its trailer, and Apply applies one entry of the log. The caller must apply no
// further entry after an error of Apply.
type Replay struct{ *applier }

// NewReplay returns a Replay with an empty state.
func NewReplay(shard uint32) *Replay { return &Replay{newApplier(fsm.New(shard))} }

// Machine returns the state itself.
func (r *Replay) Machine() *fsm.Machine { return r.machine }

// State returns the state's checkpoint and counts.
func (r *Replay) State() (Checkpoint, fsm.Counts) {
	return r.checkpoints.newest(), r.machine.Counts()
}
