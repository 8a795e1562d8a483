// Package chronicle keeps the events of the replicas of one node, and reads those of the whole cluster.
//
//	Keeper   the node's history: one shard.History for each replica, and the answers to other nodes
//	Reader   the events of all shards, from the nodes that have replicas of them
//
// A stream reads each shard from one replica: that of the leader if it answers, otherwise another one. All replicas of
// a shard have the same events at the same positions, so the reader may change replicas at any time. A replica that is
// behind has nothing after the reader's position yet, and the reader waits.
//
// The story of a task asks all nodes. The task's earlier events may be in the shard that its slot came from, and a
// replica that joined late lacks the oldest ones.
package chronicle
