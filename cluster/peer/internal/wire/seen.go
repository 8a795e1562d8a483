package wire

import "github.com/hashicorp/raft"

// sawAnswer reports the position that an answer to AppendEntries proves. A replica that answers has its term on disk. A
// replica that answers with success has every entry that the request reached to.
func (g *Group) sawAnswer(node string, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	var index, entryTerm uint64
	if resp.Success && resp.Term == req.Term {
		index, entryTerm = reaches(req)
	}
	g.saw(node, resp.Term, index, entryTerm)
}

// sawRequest reports the position that a leader's request proves. A leader sends entries that are on its own disk, and
// never shortens its log in a term that it leads.
func (g *Group) sawRequest(leader string, req *raft.AppendEntriesRequest) {
	index, entryTerm := reaches(req)
	g.saw(leader, req.Term, index, entryTerm)
}

// SawRequest reports the position that a request on a connection of the group's own proves.
func (g *Group) SawRequest(command any) {
	switch req := command.(type) {
	case *raft.InstallSnapshotRequest:
		g.saw(string(req.ID), req.Term, req.LastLogIndex, req.LastLogTerm)
	case *raft.RequestVoteRequest: // index 0: a candidate may lose in this term, and its log may then be cut
		g.saw(string(req.ID), req.Term, 0, 0)
	}
}

// SawAnswer reports the position that an answer on a connection of the group's own proves. It must not be called for a
// pre-vote, whose term is on no disk.
func (g *Group) SawAnswer(node string, req, resp any) {
	switch resp := resp.(type) {
	case *raft.InstallSnapshotResponse:
		var index, entryTerm uint64
		if r := req.(*raft.InstallSnapshotRequest); resp.Success && resp.Term == r.Term {
			index, entryTerm = r.LastLogIndex, r.LastLogTerm
		}
		g.saw(node, resp.Term, index, entryTerm)
	case *raft.RequestVoteResponse:
		g.saw(node, resp.Term, 0, 0)
	}
}

func (g *Group) saw(node string, term, index, entryTerm uint64) {
	if records := g.mux.cfg.Records; records != nil {
		records.Saw(node, g.number, term, index, entryTerm)
	}
}

// reaches returns the last entry that a request names: its last entry, or the previous entry; zeros for a heartbeat.
func reaches(req *raft.AppendEntriesRequest) (index, term uint64) {
	if n := len(req.Entries); n > 0 {
		return req.Entries[n-1].Index, req.Entries[n-1].Term
	}
	return req.PrevLogEntry, req.PrevLogTerm
}
