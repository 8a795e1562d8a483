// Package compare holds this node's replicas against those of the same shards on other nodes, all the time.
//
// Replicas of a shard apply the same log, and so their states must be equal. That they are not can come from a mistake
// in applying, from a library (hashicorp/raft issue 695 was a way for logs to part), or from memory or a disk that
// changed what it held. Nobody would notice before a failover, and then as lost or doubled tasks.
//
// # How
//
// Each replica notes its state hash (package fsm keeps it up to date at the cost of the change) after every entry,
// keeps the newest notes and those at fixed log indexes (package shard), and forgets them when a snapshot replaces its
// state. Once a second each node asks the nodes that share shards with it for what they noted since, and compares where
// both have the same index. What is ahead of its own replica it keeps until that gets there. So a shard that is written
// to is compared at fixed indexes, one that is idle where it stands, and a difference is found one to two seconds
// later.
//
// Reports of the nodes' health ride on the same exchange: see package health.
//
// # Who is right
//
// The majority: a node that finds another replica different, and at the same index its own equal to so many others that
// they are a majority with it, has outvoted that one, and tells it so. A replica that is told so by a node whose state
// it finds different itself is outvoted, until its process ends or a snapshot replaces its state: also if the
// difference passes, because the task that it was about has gone. While nobody has a majority (one of three is down) no
// replica is outvoted, and all that differ are shown as diverged. Two nodes with the same wrong state outvote a right
// one; nobody can know.
//
// An outvoted replica goes on following, and voting: its log is another thing than the state made of it. But it does
// not serve: it gives its leadership away, begins none, answers no stale read, and takes no snapshot, so that the last
// one from before the mistake stays, and the log after it. That is package shard's Barred. What has been delivered
// wrongly meanwhile this undoes no more.
//
// # What to do about it
//
// Told by an ERROR line with shard, index, hashes and nodes; belfry_replica_divergence and belfry_replica_outvoted;
// "diverged" in /v1/cluster. Not by /readyz or /healthz: the node takes calls as well as ever, since other replicas
// lead, and a probe that restarts or avoids it would not help.
//
//  1. Nothing is urgent while the two others agree: they serve. Do not restart those.
//  2. Keep a copy of the node's data folder, and its log of the last hours.
//  3. Restart the node. It makes its state anew from its last snapshot and its log. If it is equal then, the memory or
//     the process had gone wrong: suspect the machine.
//  4. If it is outvoted again within seconds, what it has on disk is wrong. `belfry verify` on the stopped node's
//     folder says whether that can be seen. Take the node away and let an empty one join.
//  5. If "diverged" is shown and no node is outvoted, bring the missing node back first.
//
// # Why not otherwise
//
// Not only the leader asks: it may be the one that is wrong, and a node must learn of its own error from those who see
// it. Not by a hash of everything from time to time: it would cost a walk over all tasks. Not in the log: a checksum
// command would make every replica stop at the same entry, and costs an entry. Not ending the process of the outvoted:
// it holds eleven other shards, and a mistake in a new version would then stop more than it damages.
package compare
