package install

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// ErrUndone ends a process that would otherwise cut off entries that it has applied.
var ErrUndone = errors.New("the leader's log contradicts what this node has applied, which was committed: the disk " +
	"of this node or of a majority went back in time, and acknowledged tasks may be lost. Stop all nodes and keep a " +
	"copy of each data folder before anything else. If old copies of folders were put back, put the newest ones back; " +
	"this node's folder still has the entries")

// contradiction returns an error if the leader's entries differ from entries that this replica has applied.
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

// hasApplied returns the last index that Raft, in this or a previous process, gave to the state machine. Its entry was
// committed.
func (g *Gate) hasApplied(r *raft.Raft) uint64 { return max(g.applied, r.AppliedIndex()) }

// undoes returns an error if the leader of leaderTerm has another entry at index than the one that this replica has
// applied. A leader of an earlier term than the replica's is deposed, and may have other entries that were never
// committed. The applied index is read before the current term. Its entry was committed by then, so every leader of
// that term or a later one must have it.
func (g *Gate) undoes(r *raft.Raft, leaderTerm, index, entryTerm uint64) error {
	if index > g.hasApplied(r) || leaderTerm < r.CurrentTerm() {
		return nil
	}
	var own raft.Log
	if err := g.log.GetLog(index, &own); err != nil || own.Term == entryTerm {
		return nil // the log no longer has the entry, or Raft meets the same error
	}
	return fmt.Errorf("entry %d of term %d was applied here, and the leader of term %d has one of term %d there: %w",
		index, own.Term, leaderTerm, entryTerm, ErrUndone)
}

// end ends the process because of a request.
func (g *Gate) end(rpc raft.RPC, err error) {
	g.shut()
	g.fatal(err)
	rpc.Respond(nil, err)
}
