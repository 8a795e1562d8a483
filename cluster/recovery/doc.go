// Package recovery works on data folders while no node runs: it verifies them, and makes the folder of a new cluster of
// one node, out of a backup or out of the folders that are left of a cluster.
//
//	VerifyFolder  reports the content and the damage of a data folder
//	VerifyBackup  the same of a backup
//	Restore       backup ─▶ read, check ─▶ slot of each task ─▶ fsm.Rebuild of its new shard ─▶ new folder
//	Open          folders ─▶ newest replica of a group ─▶ Plan ─▶ an operator's consent ─▶ Recovery.Write ─▶ new folder
//
// A new folder is marked until all is on the disk (package membership): no node opens it, and only another recovery or
// restore may begin there, from the start. A restore has read and checked the whole backup before it writes anything
// but the mark; the tasks are in memory meanwhile, where the node will need them too.
//
// # Verifying
//
// For each group of a folder, every snapshot is read and restored (its own checksum, and the hash in its trailer), the
// log is opened as a starting node would (checksums, gaps, torn or lost entries: see raftgroup/logstore), and applied
// on top of the newest snapshot. So a node starts from a sound folder, and would refuse an unsound one.
//
// Nothing is written into the folder. To open a log repairs the damage of a crash, so a copy is opened, group by group,
// in a temporary folder. The node's lock is held meanwhile, so that the node cannot start.
//
//   - The last entries of a log may not have been committed, and are applied all the same: the state shown is that
//     after the last entry.
//   - Only other nodes can tell that the whole folder is an old copy, and do when the node starts (package
//     cluster/internal/witness).
//   - A log that ends before the entry that its node had noted as applied is found, also where segments and journal
//     lost the same part. That the very last write is missing may be overlooked.
//   - Whether the state is right other replicas know: their hash at the same index must be the same (package
//     cluster/internal/health).
//   - A bolt log has no checksums of its entries.
//
// # The new cluster
//
// The cluster and the node get new ids. All checks that keep clusters apart then keep the old nodes out: the marks on
// each group's files, the greeting on the peer port, gossip, and the ids in each call. So a node that returns with its
// old disk takes no part in this cluster, and cannot vote in it or undo any of its entries. It joins with an empty
// folder. The check that recognises old copies of a folder (package witness) has nothing to recognise yet.
//
// The only node in the control state's map is the new one, which registers itself and has the only replica of each
// shard. Policies, API keys, namespaces, the replication factor, and the fact that keys are in force stay. So nothing
// opens that was closed, and the callers need no new keys. A key is valid again if it was revoked after the backup, or
// if its revocation is among the lost entries. The deletion of a namespace goes on. Operations, orders about nodes,
// records of backups and tokens end.
//
// # Restoring
//
// Revisions, fences, webhook ids, receipts, remembered idempotency keys, tombstones, dead letters stay. Changed are:
//
//   - Tasks go to the shards that own their slots now. There may be any number of shards.
//   - Attempts and leases that were under way are given back uncounted: their tasks are due again. A receiver may
//     get such an attempt twice, with the same webhook id. A consumer's receipt of such a lease is refused.
//   - Numbers of two old shards may be equal. Each new shard counts on above all of them, and remembers the origins of
//     its old webhook ids: see fsm.Rebuild.
//
// A task is overdue if it fell due between the backup and the restore. A task that was due at the backup already stays
// due with fire and dead.
//
//	fire  it is attempted as soon as the node runs
//	hold  every queue with a task that is due is paused, until an operator resumes it
//	dead  it becomes a dead letter, which can be replayed
//
// # Recovering
//
// The newest replica is the one whose last entry has the highest term, and then the highest index, as in an election of
// Raft. The whole log counts, also its end, which may not be committed: a command there is one whose caller had no
// answer.
//
//	loss      the folders have                                       so
//	none      a majority of the group's voters                       every committed entry is in the newest replica
//	possible  a minority, and no voter was seen ahead of the newest  the last moments may be missing
//	certain   a minority, and another voter was seen ahead           at least the entries up to that one are missing
//	whole     no replica of the shard                                all tasks of the shard are missing
//
// "Seen" is the record that each node keeps of the others' positions: see package witness.
//
//   - Each shard's counter rises by 2^40. The lost nodes may have given numbers that the survivors do not know. A fence
//     must not fall, and a webhook id must not name two occurrences.
//   - Tasks, leases, receipts, remembered idempotency keys and tombstones stay as the newest replica has them. The new
//     leader takes over from them as it would after a failover.
//   - The folders of the survivors stay as they are, and no part of them is used afterwards.
//   - A lost majority that returns can still serve its old cluster by itself. No protocol prevents that, since these
//     nodes are a majority in their own records. So the disks must be gone, or kept off.
//
// # Why not otherwise
//
//   - Not in place, as hashicorp/raft's RecoverCluster: a mistake would cost the last copy, and a log that was cut half
//     could not be recovered again.
//   - Not under the old cluster's id with the epoch of the recovery beside it: each of the checks above would need the
//     epoch too, and a mistake in one of them would let an old node's log overwrite the recovered one.
//   - Not by entries that remove the lost nodes: without a majority no entry is committed, and an old majority that
//     returns would not know of them.
//   - Not on several nodes at once: each group would have its voter where its newest replica is, and one lost machine
//     more would stop the cluster. Further nodes join, and get replicas from the new node.
package recovery
