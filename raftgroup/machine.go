package raftgroup

import (
	"io"

	"github.com/hashicorp/raft"
)

// Machine is the state machine of a group. The group calls its methods one at a time.
type Machine interface {
	// Apply applies one committed entry and returns an answer for its proposer on this node. After an error the group
	// applies no further entry and ends: a replica that skipped an entry would differ from the others.
	Apply(Entry) (answer any, err error)
	// Snapshot marks the present state. It must be quick, because no entry is applied meanwhile.
	Snapshot() (Snapshot, error)
	// Restore replaces the state with a state that a Snapshot wrote. An error leaves the previous state.
	Restore(io.Reader) error
}

// Entry is one committed entry of the log.
type Entry struct {
	Index, Term uint64
	Data        []byte
	Command     bool // Data is a proposal; otherwise the entry is Raft's own and Data has no meaning here
}

// Snapshot is a marked state. WriteTo is called at most once, while entries are applied. Release may come without it.
type Snapshot interface {
	io.WriterTo
	Release()
}

// EntryOf converts a Raft log entry for a Machine.
func EntryOf(l *raft.Log) Entry {
	return Entry{Index: l.Index, Term: l.Term, Data: l.Data, Command: l.Type == raft.LogCommand}
}
