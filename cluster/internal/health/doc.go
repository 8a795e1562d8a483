// Package health knows which nodes are alive and fit, and which replicas differ from others. It tells the replicas here
// whether to lead and to grow.
//
//	fact about a node     source                                     consequence
//	no answer for 4 s     it answers a question for the time every   it counts as down: it is asked last and is given
//	                      second                                     no leadership
//	disk nearly full      its report, once a second                  its replicas are unwilling to lead; a shard without
//	                                                                 a live majority that has room takes nothing more
//	memory limit reached  its report, once a second                  its shards take no new task while it is alive
//	unwilling replica     its report, once a second                  the replica is given no leadership
//	outvoted replica      the comparison of replicas                 the same, and one here stops serving (Barred)
//	clock apart           package clocks, of this node               its replicas are unwilling to lead
//
// # Comparing replicas
//
//	every entry   each replica notes its state hash; the newest notes and those at fixed log indexes are kept
//	every second  each node asks the nodes that share shards with it for their reports and their new notes
//	              and compares the hashes at equal indexes
//	a difference  is logged and shown as diverged, one to two seconds after it has begun
//	a majority    outvotes the replica that differs: that replica stops serving
//
// Replicas of a shard apply the same log, and so their states must be equal. A difference can come from a mistake in
// applying, from a library (hashicorp/raft issue 695 was a way for logs to diverge), or from memory or a disk that
// changed its content. It would go unnoticed until a failover, and then show as lost or doubled tasks.
//
//   - Package fsm keeps the state hash up to date at the cost of the change.
//   - A replica forgets its notes when a snapshot replaces its state.
//   - A node keeps the notes of another replica that is ahead until its own replica reaches their indexes. So an active
//     shard is compared at fixed indexes, and an idle one at its last entry.
//
// # Which replica is right
//
// The majority is right.
//
//   - A node outvotes a replica whose hash differs from that of its own replica at the same index. The condition is
//     that its own replica and the equal ones are a majority of the shard's replicas. The node reports the vote to the
//     other node.
//   - The other replica counts as outvoted once its own node finds the difference, too. It stays outvoted until its
//     process ends or a snapshot replaces its state, even if the difference disappears because the task has gone.
//   - Without a majority, as when one of three nodes is down, no replica is outvoted. All replicas that differ are
//     shown as diverged.
//   - Two nodes with the same wrong state outvote a right one. No node can find that out.
//
// An outvoted replica goes on following and voting, since its log may be right. But it does not serve: it transfers its
// leadership, begins none, answers no stale read, and takes no snapshot. So its disk keeps the last snapshot from
// before the mistake, and the log after that snapshot. See shard.Barred. Earlier wrong deliveries are not undone.
//
// After a few seconds the control group has the outvoted replica deleted and copied anew; see control.Fault. Its node
// begins a new ledger for the copy.
//
// # Advice to the operator
//
// A difference shows in an ERROR line with shard, index, hashes and nodes, in belfry_replica_divergence and
// belfry_replica_outvoted, and as "diverged" in /v1/cluster. It does not show in /readyz or /healthz: the node takes
// calls as well as ever, since other replicas lead, and a probe that restarts or avoids it would not help.
//
//  1. Nothing is urgent while the two other replicas agree: they serve, and the third is copied anew. Do not restart
//     their nodes.
//  2. Keep the node's log of the last hours, and suspect the machine: its memory, its disk. If it happens again, take
//     the node away and let an empty one join.
//  3. If "diverged" is shown and no node is outvoted, bring the missing node back first.
//
// # Why not otherwise
//
// Not by gossip: any sender may forge it. Not in the control group: health changes too often for a log, and an old
// entry would be worse than none. Not only the leader compares: it may be the wrong one, and a node must learn of its
// own error from the others. Not a hash of everything from time to time: it would cost a walk over all tasks. Not in
// the log: a checksum command would make every replica stop at the same entry, and costs an entry. Not an end of the
// outvoted replica's process: it holds eleven other shards, and a mistake in a new version would then stop more than it
// damages.
package health
