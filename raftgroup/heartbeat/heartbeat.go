// Package heartbeat tells hashicorp/raft's heartbeats from its other requests, for all who treat them otherwise: the
// shards, which pace them, and the nodes' streams, where they have one of their own.
package heartbeat

import "github.com/hashicorp/raft"

// Is recognises what Raft sends only to be heard.
func Is(req *raft.AppendEntriesRequest) bool {
	return len(req.Entries) == 0 && req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && req.LeaderCommitIndex == 0
}
