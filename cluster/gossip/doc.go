// Package gossip spreads nodes' news of themselves (that they live, where they listen) and of the shards' leaders. All
// of it is hints. A hint may be late, wrong for seconds, forged by any sender that reaches the port of a node without a
// gossip key, or missing. Gossip decides nothing. No member joins or leaves a Raft group because of gossip; a node that
// gossip calls alive or dead is asked itself; an address counts once a dial has found the node there; and a leader's
// name costs a retry at most. The gain from gossip is freshness.
//
// The implementation is memberlist, over the peer port. A node is known there by its id and the count of its starts. So
// a node that comes back, at whatever address, is a new member at once and need not wait until its former self is
// declared dead. Of several starts of one node only the latest is shown.
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
// unknown members. So a flood of forged members is bounded in memory and is asked nothing. A forged death is over when
// memberlist has forgotten it, after some ten seconds: until then the member may be unable to contradict it.
//
// memberlist trusts its input more than is safe without a key. Messages that would end the process or fill its memory
// are kept from it; see vetted.
//
// A leader announces itself when its leadership begins, by a broadcast that each node passes on if it is new there.
// Every exchange of whole states carries the leaders too. Nodes that hold a replica know better from Raft itself.
package gossip
