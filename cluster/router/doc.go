// Package router finds who can answer a call: id → slot → shard → leader.
//
// A call for a shard that this node leads stays here; any other makes one hop, to the node that is believed to lead
// (package forward). Beliefs come from Raft where this node holds a replica and from gossip elsewhere, ordered by term;
// with none, the replicas are asked in turn, since each of them knows. A belief that was wrong costs one more try: the
// node that was asked says who leads, and the call goes there. The other node never passes it on.
//
// While a shard has no leader its calls wait here, until the caller's deadline. What is tried again is only what is
// certainly not proposed (task.ErrNotProposed); task.ErrUnknown goes to the caller, who alone can say whether repeating
// is right. Commands of one Do about one id keep their order also across tries: see unsettled.
//
// A queue is not of one shard. What all of them hold of it is asked of every leader and added up (Queues); permits to
// begin attempts come from the leader of the one shard that owns its limits (Lend), which is a pure function of its
// name. Both change nothing in any log, and are tried again like reads.
//
// Not a proxy at every node for every byte, and not clients that must know the shards (they may: the slots are
// published): any node takes any call, and the price is one hop inside the cluster.
package router
