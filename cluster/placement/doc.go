// Package placement decides which nodes hold a replica of which shard, and which of them should lead it.
//
// It is a pure function of its input: no state, no clock, no randomness. The control group's leader calls it once and
// commits what it says; replicas of the control group never call it, so a later build may place differently.
//
// It does not know load, racks or the present: moving a shard is a different question (a few steps from one committed
// placement towards another) and will be asked of a function beside this one. Consistent hashing was turned down: it
// spreads tens of shards unevenly, and what it is good at, moving little when nodes change, is not wanted here, where
// nothing moves by itself.
package placement
