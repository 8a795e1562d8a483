// Package wire carries AppendEntries, heartbeats and log entries alike, of all Raft groups between two nodes.
//
//	node A                                      node B
//	all groups ── stream of heartbeats, A asks ──→ inbox of each group ──→ Raft
//	all groups ── stream of entries, A asks ─────→ inbox of each group ──→ Raft
//	           ←── answers, each names its request, on the same stream ──
//
// All groups of a node share the streams:
//
//   - Each ordered pair of nodes has two streams. Requests go one way, answers come back. All data that waits while
//     a write is in progress leaves with the next write. No write ever waits for a timer.
//   - A node answers the header of a stream before it sends anything else on it: with the version that both speak, or
//     with the reason for which it refuses the stream. The caller remembers neither. The next request to the node dials
//     anew, and Raft waits longer from one failed request to the next.
//   - The encoding is protobuf's, put together by hand: other builds skip fields that they do not know, and entries are
//     neither copied into a message nor out of one. Data follows a frame's head unencoded. Large pieces are sent from
//     the log's cache, and each entry is received into memory of its own, because the log's cache keeps some entries
//     longer than others and counts the bytes that it keeps.
//   - Requests of a group may overtake each other when they change from one stream to another, or when one stream ends
//     and the next begins. The same holds for any two connections. Raft tolerates it, and package raftgroup/install
//     protects snapshots.
//   - Votes, snapshots and leadership transfers stay with Raft's transport: they are rare, and snapshots are large.
//   - This package knows no ports, addresses or keys: package peer brings the connections.
//
// # Groups do not hold up each other
//
// A request that arrives goes into its group's inbox, which is bounded, and the stream reads on: a group with a slow
// disk answers late, alone. A request that finds no room there is answered with an error, but only when there is room
// again: a refusal at once would be followed by the same request at once, with all its entries.
//
// A request that is not answered in time fails by itself. It ends its stream if nothing else was heard on the stream
// meanwhile either. The next request dials anew. The reading side sees at once that a restarted peer has hung up, so no
// exchange is lost to find it out.
//
// # Why not otherwise
//
// Not Raft's own transport, with connections for each group and peer: it encodes each message by reflection, and each
// message costs a write and a read and wakes goroutines on both sides. With a dozen groups and small entries that is
// most of the cost of replication.
//
// Not one stream, because a late heartbeat causes an election: on a stream of its own it never stands behind megabytes
// of entries, here or in the peer's buffers. Not more than two, because one group sends little for a stream, and order
// matters within a group only: all requests of a pipeline use the stream of entries.
package wire
