// Package heartbeat distinguishes hashicorp/raft's heartbeats from its other requests. The groups delay heartbeats to
// common moments, and the streams between nodes carry them apart.
package heartbeat

import "github.com/hashicorp/raft"

// Is reports whether req is a heartbeat: a request without content, sent only to keep contact.
func Is(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}
