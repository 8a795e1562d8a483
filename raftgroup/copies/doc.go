// Package copies meters the snapshots that a node sends to replicas on other nodes.
//
//	            Group of shard 1      Group of shard 2
//	                  │ Begin               │ Begin
//	┌─────────────────▼─────────────────────▼───┐
//	│ Meter    one limit in bytes a second      │──▶ UnderWay, Sent
//	└─────────────────┬─────────────────────┬───┘
//	                Copy                  Copy      each between a snapshot's file and a connection
//
// Rules:
//
//   - One Meter serves all groups of a node, so the limit holds for the node.
//   - A copy to a replica without a vote is limited. A copy to a voter is not: the group may need that voter.
//   - A copy ends early when its group says that it is of no more use, such as after the end of the leadership. Raft
//     itself would send it to its end, and that may be an hour away.
//   - Bytes leave in pieces of a tenth of a second or less, so that a stop of the process never waits long for a copy.
//
// golang.org/x/time/rate is the limiter: waiting copies take turns.
//
// Why not a limit at the connection: entries and heartbeats would wait behind the snapshot.
package copies
