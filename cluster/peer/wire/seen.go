package wire

import "github.com/hashicorp/raft"

// sawAnswer passes on what an answer to AppendEntries shows: a replica that answers has its term on disk, and one that
// answers a request with success has all that the request reached to.
func (g *Group) sawAnswer(node string, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	var index, entryTerm uint64
	if resp.Success && resp.Term == req.Term {
		index, entryTerm = reaches(req)
	}
	g.mux.cfg.Seen(node, g.number, resp.Term, index, entryTerm)
}

// sawRequest passes on the position that a leader's request shows. A leader sends entries that are on its own disk, and
// never shortens its log in a term that it leads.
func (g *Group) sawRequest(leader string, req *raft.AppendEntriesRequest) {
	index, entryTerm := reaches(req)
	g.mux.cfg.Seen(leader, g.number, req.Term, index, entryTerm)
}

// SawRequest notes the position that a request shows which arrived by a connection of the group's own.
func (g *Group) SawRequest(command any) {
	seen := g.mux.cfg.Seen
	switch req := command.(type) {
	case *raft.InstallSnapshotRequest:
		seen(string(req.ID), g.number, req.Term, req.LastLogIndex, req.LastLogTerm)
	case *raft.RequestVoteRequest: // a candidate may lose in this term, and its log may then be cut
		seen(string(req.ID), g.number, req.Term, 0, 0)
	}
}

// SawAnswer notes the position that an answer shows which arrived by a connection of the group's own. It must not be
// called for a pre-vote, whose term is on no disk.
func (g *Group) SawAnswer(node string, req, resp any) {
	seen := g.mux.cfg.Seen
	switch resp := resp.(type) {
	case *raft.InstallSnapshotResponse:
		var index, entryTerm uint64
		if r := req.(*raft.InstallSnapshotRequest); resp.Success && resp.Term == r.Term {
			index, entryTerm = r.LastLogIndex, r.LastLogTerm
		}
		seen(node, g.number, resp.Term, index, entryTerm)
	case *raft.RequestVoteResponse:
		seen(node, g.number, resp.Term, 0, 0)
	}
}

// reaches is the last entry that a request names; zeros: none, it is a heartbeat.
func reaches(req *raft.AppendEntriesRequest) (index, term uint64) {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return req.PrevLogEntry, req.PrevLogTerm
}
