package install

import (
	"errors"

	"github.com/hashicorp/raft"
)

// judgeEntries passes entries to Raft. It lowers the commit index to the last entry of the request. Otherwise Raft
// would commit up to the end of its log, where entries may lie that the leader has not compared yet.
func (g *Gate) judgeEntries(r *raft.Raft, rpc raft.RPC, req *raft.AppendEntriesRequest) {
	if err := g.contradiction(r, req); err != nil {
		g.end(rpc, err)
		return
	}
	last := req.PrevLogEntry + uint64(len(req.Entries))
	if g.told.Load() == 0 && req.Term >= r.CurrentTerm() && req.LeaderCommitIndex <= last && g.commitsItsOwn(req) {
		g.told.Store(req.LeaderCommitIndex)
	}
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

// commitsItsOwn reports whether the commit index of a request is that of an entry of the leader's own term. The commit
// index of a new leader may lack entries acknowledged by an earlier one, until an entry of its own is committed.
func (g *Gate) commitsItsOwn(req *raft.AppendEntriesRequest) bool {
	switch committed, before := req.LeaderCommitIndex, req.PrevLogEntry; {
	case committed > before:
		return req.Entries[committed-before-1].Term == req.Term
	case committed == before:
		return req.PrevLogTerm == req.Term
	default:
		var entry raft.Log
		return g.log.GetLog(committed, &entry) == nil && entry.Term == req.Term
	}
}

// forgot reports whether an entry was applied and is no longer in the log. Raft refuses every entry right behind such
// an entry.
func (g *Gate) forgot(r *raft.Raft, entry uint64) bool {
	if entry == 0 || entry > r.AppliedIndex() {
		return false
	}
	var found raft.Log
	return errors.Is(g.log.GetLog(entry, &found), raft.ErrLogNotFound)
}

// after returns the request without the applied entries, which are committed and need no comparison. Raft compares the
// other entries one by one. It looks for no previous entry if the request names none.
func after(req *raft.AppendEntriesRequest, applied uint64) *raft.AppendEntriesRequest {
	rest := *req
	rest.Entries = req.Entries[applied-req.PrevLogEntry:]
	rest.PrevLogEntry, rest.PrevLogTerm = 0, 0
	return &rest
}
