package shard

import "github.com/belfryhq/belfry/fsm"

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
