// Package gossip spreads hints between nodes: which nodes live, where they listen, and which nodes lead the shards.
//
//	hint              where it is sent
//	a node's start    in memberlist's own messages: id, count of starts, addresses, cluster, whether it takes part
//	a shard's leader  in a broadcast when the leadership begins and every few seconds after that; a node passes on the
//	                  broadcasts that are new to it. Also in every exchange of whole states
//
// Gossip decides nothing. A hint may be late, wrong for seconds, forged by any sender that reaches the port of a node
// without a gossip key, or missing:
//
//   - No member joins or leaves a Raft group because of gossip.
//   - When gossip calls a node alive or dead, the other nodes ask that node itself.
//   - An address counts once a dial has found the node there.
//   - A leader's name costs a retry at most. Nodes that hold a replica know better from Raft itself.
//
// The gain from gossip is freshness.
//
// The implementation is memberlist, over the peer port. A node's name there is its id and the count of its starts. So a
// node that comes back, at whatever address, is a new member at once and need not wait until its former self is
// declared dead. Of several starts of one node only the latest is shown.
//
// # Keys
//
// With keys all packets and exchanges are encrypted. The first key encrypts, and all decrypt. SetKeys changes them
// while the mesh runs: package certs describes the order in which the nodes of a cluster get a new key.
//
// # Forged members
//
// A node refuses members that cannot be nodes of its cluster:
//
//   - a member whose metadata is unreadable, or contradicts the member's name or address
//   - a member of another cluster
//   - a member whose node is not in the cluster's map, once this node knows the map
//   - a fifth start of one node
//   - news of a start that contradict the start's earlier metadata
//
// While a node does not know its cluster's map, because it forms or joins a cluster or has just started, it lets in 64
// unknown members. So a flood of forged members is bounded in memory, and the node asks them nothing. A forged death is
// over when memberlist has forgotten it, after some ten seconds: until then the member may be unable to contradict it.
//
// memberlist trusts its input more than is safe without a key. This package keeps from it the messages that would end
// the process or fill its memory; see vetted.
package gossip
