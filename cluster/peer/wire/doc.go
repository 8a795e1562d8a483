// Package wire carries AppendEntries, heartbeats and log entries alike, of all Raft groups between two nodes.
//
// Raft's own transport has connections of its own for each group and peer. Each message on them is encoded by
// reflection and costs a write and a read, and wakes goroutines on both sides; with a dozen groups and small entries
// that is most of what replication costs. Here all groups share two streams for each ordered pair of nodes. Requests go
// one way, answers come back, each names its request, and whatever waits while something is being written leaves with
// the next write. Nothing ever waits for a timer.
//
// Two streams and not one, because a heartbeat that is late is an election: on a stream of its own it never stands
// behind megabytes of entries, here or in the peer's buffers. Not more than two, because what one group sends is little
// for a stream, and order matters within a group only: all that a pipeline sends goes by the stream of entries.
//
// Nobody may hold up the others. A request that arrives is put into its group's inbox, which is bounded, and the stream
// is read on; a group whose disk is slow answers late, alone. What finds no room there is answered with an error, but
// only when there is room again: at once, it would be sent again at once, with all its entries. A request that is not
// answered in time fails by itself, and takes its stream along if nothing else was heard on it meanwhile either. The
// next request dials anew. A peer that has restarted has hung up, which the reading side sees at once, so that no
// exchange is lost to find it out.
//
// What is written is protobuf's encoding, put together by hand: other builds skip fields that they do not know, and
// entries are neither copied into a message nor out of one. Data follows a frame's head as it is; large pieces are sent
// from where they lie in the log's cache, and each entry is received into memory of its own, because the log's cache
// keeps some longer than others and counts what it keeps.
//
// A node answers the header of a stream before anything else is sent on it: with the version that both speak, or with
// the reason for which it refuses the stream. Neither is remembered. The next request to the node dials anew, and Raft
// waits longer from one failed request to the next.
//
// Requests of a group may overtake each other where they change from one way to another, or one stream ends and the
// next begins; so they may between any two connections. Raft does not mind, and package raftgroup/install looks after
// snapshots.
//
// Votes, snapshots and the hand-over of leadership stay with Raft's transport: they are rare, and snapshots are large.
// This package knows nothing of ports, addresses and keys either; package peer brings the connections.
package wire
