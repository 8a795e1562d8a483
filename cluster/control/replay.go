package control

import "github.com/belfryhq/belfry/cluster/clusterpb"

// Replay makes the control group's state from its snapshots and log, without a Raft group, to inspect a stopped node.
// The state stays unchanged if Restore fails. Apply applies one entry of the log. An entry that was refused when it was
// committed is refused again, which is no error.
type Replay struct{ *machine }

// NewReplay returns a Replay with an empty state.
func NewReplay() *Replay { return &Replay{newMachine()} }

// State returns the state. The caller must not change it.
func (r *Replay) State() *clusterpb.ControlState {
	state, _ := r.watch()
	return state
}
