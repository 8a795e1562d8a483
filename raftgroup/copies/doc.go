// Package copies meters the snapshots that a node sends to replicas on other nodes, and limits other copies with them.
//
//	            Group of shard 1      Group of shard 2      tasks of slots that move to shard 3
//	                  │ Begin               │ Begin               │ Pace
//	┌─────────────────▼─────────────────────▼─────────────────────▼───┐
//	│ Meter                one limit in bytes a second                │──▶ UnderWay, Sent, Paced
//	└─────────────────┬─────────────────────┬─────────────────────────┘
//	                Copy                  Copy      each between a snapshot's file and a connection
//
// Rules:
//
//   - One Meter serves all groups of a node, so the limit holds for the node.
//   - A copy to a replica without a vote is limited. A copy to a voter is not: the group may need that voter.
//   - A copy ends early when its group says that it is of no more use, such as after the end of the leadership. Raft
//     itself would send it to its end, and that may be an hour away.
//   - Tasks of slots on the move wait for their turn, by Pace, at the leader that writes them into its log. Its node
//     sends them on to the followers, so the limit of that node counts.
//   - Bytes leave in pieces of a tenth of a second or less, so that a stop of the process never waits long for a copy.
//   - Within any time, the Meter lets through a piece more than the limit allows for that time at most. A machine that
//     stops the process for a moment adds a piece of each copy.
//   - Waiting copies take turns, a piece each.
//
// Why not:
//
//   - A limit at the connection: entries and heartbeats would wait behind the snapshot.
//   - golang.org/x/time/rate: reservations that are cancelled among others give back more than they took.
package copies
