package control

import (
	"io"

	"github.com/hashicorp/raft"
)

// Replay makes the control group's state from what is kept of it, without a Raft group: for looking at a node that is
// stopped.
type Replay struct{ machine *machine }

// NewReplay begins with an empty state.
func NewReplay() *Replay { return &Replay{newMachine(func(error) {})} }

// Restore takes a snapshot's content. After an error the state is what it was.
func (r *Replay) Restore(content io.ReadCloser) error { return r.machine.Restore(content) }

// Apply carries out one entry of the log. It fails for an entry that cannot be read; one that was refused when it was
// committed is refused again, which is no error.
func (r *Replay) Apply(entry *raft.Log) error {
	if entry.Type == raft.LogCommand {
		r.machine.Apply(entry)
	}
	r.machine.mu.Lock()
	defer r.machine.mu.Unlock()
	return r.machine.broken
}
