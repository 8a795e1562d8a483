// Package router takes a call about any task to the node that can answer it: id → slot → shard → leader.
//
//	Do               commands; each shard's part goes to the shard's leader, side by side
//	Get, List        reads; linearizable, or stale from the nearest replica
//	Queues           counts from every shard's leader, added up
//	Borrow           permits of a limited queue, from the leader of the one shard that owns its limits
//
// A call for a shard that this node leads stays here. Any other call makes one hop, to the believed leader (package
// calls). A wrong belief costs one more try: the node that was asked names the leader, and the call goes there. The
// other node never passes the call on.
//
// # Trying again
//
// While a shard has no leader, its calls wait here until the caller's deadline. The router repeats only a call that was
// certainly not proposed (task.ErrNotProposed). task.ErrUnknown goes to the caller, and only the caller can decide
// whether repeating is right. Reads, Queues and Borrow change nothing in any log, so the router repeats them in both
// cases. Commands of one Do about one id keep their order also across tries: see unsettled.
//
// # Builds that differ
//
// During an upgrade a shard's leader may have an older build than this node. It would write a command that it does not
// know to its log, and neither it nor any other node of that build could apply the entry. So the router refuses a
// command until all nodes can read it.
//
// # Why not otherwise
//
// Not a proxy at every node for every byte, and not clients that must know the shards (they may: the slots are
// published): any node accepts any call, and the price is one hop inside the cluster.
package router
