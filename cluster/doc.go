// Package cluster is one node among others: who is there, which shard lives where, and how a call reaches its leader.
//
// Node puts the parts together, each in a package of its own:
//
//	identity   what a data folder must never forget: node id, promise, cluster id, groups
//	peer       the one port between nodes: Raft groups, gossip, gRPC; TLS
//	gossip     hints: who seems alive, at which address, who is said to lead
//	formation  how a node without a cluster gets into one
//	control    Raft group 0: nodes, slots, placement; readable on every node
//	placement  which nodes hold which shard: a pure function
//	clocks     how far other nodes' clocks are from this one's
//	forward    calls on their one hop to another node
//	router     id → slot → shard → leader, and trying again
//
// The rule between them: gossip hints, Raft decides. An address, a sign of life, a leader's name may come from gossip,
// since using a wrong one costs a retry; membership and placement come from the control group only. A peer's address is
// resolved each time it is dialled, and every connection says for whom it is meant, so that neither a restart elsewhere
// nor an address that changed hands needs anything to be decided.
//
// What a node does by itself is to follow the control group's state: it runs the replicas that are placed on it and
// keeps its own entry right. It moves nothing. Shards themselves (package shard) know neither this package nor each
// other.
//
// # Starting and stopping
//
// Open returns as soon as the port is open; a cluster may still have to be formed then, with nodes that start later.
// Ready says when the node is of use. Close gives leaderships away before it hangs up.
package cluster
