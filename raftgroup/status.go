package raftgroup

import (
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/install"
)

// Stats describes a replica at one moment.
type Stats struct {
	Role      string // leader, follower, candidate or shutdown
	Leader    string // the leader that the replica knows of; empty: none
	Term      uint64
	Last      uint64 // index of the log's last entry
	Committed uint64 // index of the last entry known to be committed
	Taken     uint64 // index of the last entry given to the machine, which may not have applied it yet
}

// Stats describes this replica.
func (g *Group) Stats() Stats {
	leader, term := g.Leader()
	return Stats{
		Role: strings.ToLower(g.raft.State().String()), Leader: leader, Term: term, Last: g.raft.LastIndex(),
		Committed: g.raft.CommitIndex(), Taken: g.raft.AppliedIndex(),
	}
}

// HasCaughtUp reports whether the machine has applied all that a leader had acknowledged at some time since the start.
func (g *Group) HasCaughtUp() bool {
	told := g.gate.Told()
	return told > 0 && g.Applied() >= told
}

// Applied returns the index of a committed entry up to which the machine has applied all entries that are for it.
func (g *Group) Applied() uint64 {
	index := max(g.applier.lastApplied(), g.stat("last_snapshot_index")) // Restore gets no index
	for committed := g.raft.CommitIndex(); index < committed; index++ {
		var next raft.Log
		if err := g.cfg.Storage.Log().GetLog(index+1, &next); err != nil || isForMachine(&next) {
			break
		}
	}
	return index
}

// Leader returns the leader that this replica knows of, empty if none, and the replica's current term.
func (g *Group) Leader() (nodeID string, term uint64) {
	_, id := g.raft.LeaderWithID()
	return string(id), g.raft.CurrentTerm()
}

// Term returns the replica's term.
func (g *Group) Term() uint64 { return g.raft.CurrentTerm() }

// Leads reports whether Raft believes that it leads. Another node may have deposed it unnoticed.
func (g *Group) Leads() bool { return g.raft.State() == raft.Leader }

// LeadsIn reports whether Raft leads in that term.
func (g *Group) LeadsIn(term uint64) bool { return g.Leads() && g.raft.CurrentTerm() == term }

// goesOnIn reports whether Raft leads in that term and the group is not stopping.
func (g *Group) goesOnIn(term uint64) bool {
	return g.opened.Load() && !g.stopping.Load() && g.LeadsIn(term)
}

// Down returns a channel that is closed when Raft has shut down.
func (g *Group) Down() <-chan struct{} { return g.futures.down }

// Position returns the replica's term and the index of the last entry given to the machine.
func (g *Group) Position() (term, taken uint64) { return g.raft.CurrentTerm(), g.raft.AppliedIndex() }

// LogBytes returns the bytes of log applied since the last snapshot.
func (g *Group) LogBytes() int64 { return g.applier.logBytes() }

// Arriving tells how much of a leader's snapshot has arrived here.
func (g *Group) Arriving() install.Arriving { return g.gate.Arriving() }

// Peer describes another member in the view of a term's leader.
type Peer struct {
	Contact time.Time // when the leader sent the newest request that the member answered in the term; zero: none
	Lag     uint64    // entries that it lacks as far as known; without a contact all of the log
	Lacked  uint64    // entries that it lacked at its answer; 0 without a contact
}

// Peer describes a member by its answers in this term.
func (g *Group) Peer(nodeID string, term uint64) Peer {
	c, ok := g.contacts.of(nodeID, term)
	if !ok {
		return Peer{Lag: max(g.raft.LastIndex(), 1)}
	}
	return Peer{Contact: c.at, Lag: g.lacks(c.lastLog), Lacked: c.lacked}
}

// lacks returns the number of entries that a log ending at lastLog lacks.
func (g *Group) lacks(lastLog uint64) uint64 {
	if !g.opened.Load() {
		return ^uint64(0) // any number, while Raft is being opened
	}
	last := g.raft.LastIndex()
	return last - min(lastLog, last)
}
