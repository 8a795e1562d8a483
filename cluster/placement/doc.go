// Package placement decides which nodes hold a replica of which shard, and which node should lead it.
//
//	Place    the nodes of each shard, and its preferred leader
//	Split    the slots of each shard
//	Shards   the number of shards of a new cluster
//
// The functions depend on their input only: no state, no clock, no randomness. The control group's leader calls them
// once and commits the results; replicas of the control group never call them, so a later build may place differently.
//
// # Why not otherwise
//
// The package does not know load, racks or the present placement. Moving a shard is a different question (a few steps
// from one committed placement towards another) and will have a function of its own. Not consistent hashing: it spreads
// tens of shards unevenly, and its strength, moving little when nodes change, is of no use here, where nothing moves by
// itself.
package placement
