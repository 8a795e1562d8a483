package install

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// ErrUndone ends a process that was about to cut off entries that it had applied.
var ErrUndone = errors.New("the leader's log contradicts what this node has applied, which was committed: the disk " +
	"of this node or of a majority went back in time, and acknowledged tasks may be lost. Stop all nodes and keep a " +
	"copy of each data folder before anything else. If old copies of folders were put back, put the newest ones back; " +
	"this node's folder still has the entries")

// contradiction looks for an entry that this replica has applied where the leader has another one.
func (g *Gate) contradiction(r *raft.Raft, req *raft.AppendEntriesRequest) error {
	if req.PrevLogEntry > 0 {
		if err := g.undoes(r, req.Term, req.PrevLogEntry, req.PrevLogTerm); err != nil {
			return err
		}
	}
	for _, e := range req.Entries {
		if e.Index > g.hasApplied(r) {
			break
		}
		if err := g.undoes(r, req.Term, e.Index, e.Term); err != nil {
			return err
		}
	}
	return nil
}

// hasApplied is the last entry that Raft, now or in a process before, gave to the state machine: it was committed.
func (g *Gate) hasApplied(r *raft.Raft) uint64 { return max(g.applied, r.AppliedIndex()) }

// undoes returns an error if the leader of leaderTerm has another entry at index than the one that this replica has
// applied. A leader of an earlier term than the replica's is deposed: it may have other entries that were never
// committed. The applied index is read before the current term: its entry was committed by then, so every leader of
// that term or a later one must have it.
func (g *Gate) undoes(r *raft.Raft, leaderTerm, index, entryTerm uint64) error {
	if index > g.hasApplied(r) || leaderTerm < r.CurrentTerm() {
		return nil
	}
	var own raft.Log
	if err := g.log.GetLog(index, &own); err != nil || own.Term == entryTerm {
		return nil // it is not in the log any more, or Raft meets the same error
	}
	return fmt.Errorf("entry %d of term %d was applied here, and the leader of term %d has one of term %d there: %w",
		index, own.Term, leaderTerm, entryTerm, ErrUndone)
}

// end ends the process over a request.
func (g *Gate) end(rpc raft.RPC, err error) {
	g.shut()
	g.fatal(err)
	rpc.Respond(nil, err)
}
