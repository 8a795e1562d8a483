package raftgroup

import (
	"io"

	"github.com/hashicorp/raft"
)

// Machine is the state that a group's entries make. Its methods are called one at a time.
type Machine interface {
	// Apply applies one committed entry and returns an answer for its proposer on this node. After an error nothing more
	// is applied, and the group ends: a replica that skipped an entry would differ from the others.
	Apply(Entry) (answer any, err error)
	// Snapshot marks the present state. It must be quick: no entry is applied meanwhile.
	Snapshot() (Snapshot, error)
	// Restore replaces the state with one that a Snapshot has written. After an error the state is the one before.
	Restore(io.Reader) error
}

// Entry is one committed entry of the log.
type Entry struct {
	Index, Term uint64
	Data        []byte
	Command     bool // its data is a proposal; otherwise Raft changed the membership and Data means nothing here
}

// Snapshot is a marked state. WriteTo is called at most once, beside further entries; Release may come without it.
type Snapshot interface {
	io.WriterTo
	Release()
}

// EntryOf returns what a Machine sees of an entry.
func EntryOf(l *raft.Log) Entry {
	return Entry{Index: l.Index, Term: l.Term, Data: l.Data, Command: l.Type == raft.LogCommand}
}
