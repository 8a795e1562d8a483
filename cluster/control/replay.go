package control

// Replay makes the control group's state from its snapshots and log, without a Raft group: for looking at a node that
// is stopped. After an error of Restore the state is the one before. Apply carries out one entry of the log; an entry
// that was refused when it was committed is refused again, which is no error.
type Replay struct{ *machine }

// NewReplay begins with an empty state.
func NewReplay() *Replay { return &Replay{newMachine()} }
