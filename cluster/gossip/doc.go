// Package gossip spreads what nodes say about themselves (that they live, where they listen) and who they believe leads
// which shard. All of it is hints: it may be late, or wrong for seconds. Nothing is decided by it. No member is added
// to a Raft group, and none removed, because gossip says so.
//
// It is memberlist, over the peer port. A node is known there by its id and the count of its starts, so a node that
// comes back, at whatever address, is a new member at once and need not wait until its former self is declared dead.
// Of several starts of one node only the latest is shown.
//
// Who leads a shard is told by its leader when it begins (a broadcast, passed on by whoever finds it new) and in every
// exchange of whole states. Nodes that hold a replica know better from Raft itself.
package gossip
