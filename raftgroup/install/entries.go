package install

import (
	"errors"

	"github.com/hashicorp/raft"
)

// judgeEntries passes entries on. What Raft may commit by them is no more than they reach to: Raft would commit up to
// the end of the log, where entries may lie that the leader has not compared yet.
func (g *Gate) judgeEntries(r *raft.Raft, rpc raft.RPC, req *raft.AppendEntriesRequest) {
	if err := g.contradiction(r, req); err != nil {
		g.end(rpc, err)
		return
	}
	last := req.PrevLogEntry + uint64(len(req.Entries))
	if req.LeaderCommitIndex > last {
		bounded := *req
		bounded.LeaderCommitIndex = last
		req = &bounded
		rpc.Command = req
	}
	if g.forgot(r, req.PrevLogEntry) && g.settle() && req.Term == r.CurrentTerm() {
		applied := r.AppliedIndex()
		if last <= applied {
			rpc.Respond(&raft.AppendEntriesResponse{Term: req.Term, LastLog: r.LastIndex(), Success: true}, nil)
			return
		}
		rpc.Command = after(req, applied)
	}
	g.pass(rpc)
}

// forgot tells whether an entry was applied and is in the log no longer. Raft refuses all that follows such a one.
func (g *Gate) forgot(r *raft.Raft, entry uint64) bool {
	if entry == 0 || entry > r.AppliedIndex() {
		return false
	}
	var found raft.Log
	return errors.Is(g.log.GetLog(entry, &found), raft.ErrLogNotFound)
}

// after is the request for what follows the applied entries, which need no comparing: they are committed. Raft compares
// the others one by one, and looks for none before them if none is named.
func after(req *raft.AppendEntriesRequest, applied uint64) *raft.AppendEntriesRequest {
	rest := *req
	rest.Entries = req.Entries[applied-req.PrevLogEntry:]
	rest.PrevLogEntry, rest.PrevLogTerm = 0, 0
	return &rest
}
