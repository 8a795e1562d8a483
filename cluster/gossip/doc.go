// Package gossip spreads what nodes say about themselves (that they live, where they listen) and who they believe
// leads which shard. All of it is hints: it may be late, wrong for seconds, forged by anybody who reaches the port of
// a node without a gossip key, or silent. Nothing is decided by it. No member is added to a Raft group, and none
// removed, because gossip says so; a node that gossip calls alive or dead is asked itself; an address counts once a
// dial has found the node there; and a leader's name costs a retry at most. What gossip brings is freshness.
//
// It is memberlist, over the peer port. A node is known there by its id and the count of its starts, so a node that
// comes back, at whatever address, is a new member at once and need not wait until its former self is declared dead.
// Of several starts of one node only the latest is shown.
//
// Members are refused that cannot be nodes of this one's cluster: those that say nothing readable about themselves, or
// something that does not fit their name or address; those of another cluster; those whose node is not in the
// cluster's map, once this node knows that; more than four starts of a node; and news of a start that contradict what
// it said before. While this node does not know its cluster's map, because it forms or joins one or has just started,
// it lets in 64 that it does not know. So a flood of forged members is bounded in memory and asked nothing. A forged
// death is over when memberlist has forgotten it, after some ten seconds: until then the member may be unable to
// contradict it.
//
// memberlist trusts what it reads more than can be done without a key. Messages that would end the process or fill its
// memory are kept from it; see vetted.
//
// Who leads a shard is told by its leader when it begins (a broadcast, passed on by whoever finds it new) and in every
// exchange of whole states. Nodes that hold a replica know better from Raft itself.
package gossip
