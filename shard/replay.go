package shard

import (
	"io"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm"
)

// Replay makes a replica's state from what is kept of it, without a Raft group: for looking at a node that is stopped.
type Replay struct {
	applier *applier
	machine *fsm.Machine
}

// NewReplay begins with an empty state.
func NewReplay(shard uint32) *Replay {
	machine := fsm.New(shard)
	never := func(error) {} // what Apply returns says it
	return &Replay{machine: machine, applier: newApplier(machine, 1<<62, never)}
}

// Restore takes a snapshot's content, and checks it against the hash in its trailer. After an error the state is what
// it was.
func (r *Replay) Restore(content io.ReadCloser) error { return r.applier.Restore(content) }

// Apply carries out one entry of the log. After an error nothing more is applied.
func (r *Replay) Apply(entry *raft.Log) error {
	if entry.Type != raft.LogCommand {
		return nil
	}
	answer, ok := r.applier.Apply(entry).(applied)
	if !ok {
		return nil
	}
	return answer.err
}

// State is the state's hash, and what it holds.
func (r *Replay) State() (Checkpoint, fsm.Counts) {
	return r.applier.checkpoints.newest(), r.machine.Counts()
}
