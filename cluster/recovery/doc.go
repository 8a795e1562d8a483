// Package recovery makes a new cluster of one node from the remaining folders of a cluster that has lost a majority of
// its disks. No node may run meanwhile.
//
//	folders of the survivors ─▶ Open: replay each group, choose the newest replica ─▶ Plan ─▶ the operator confirms
//	                                                                                              │
//	           node.json, witness, groups/0000 … in a new folder ◀─ snapshots ◀─ Recovery.Write ◀─┘
//
// # Which replica is the newest
//
// The one whose last entry has the highest term, and then the highest index, as in an election of Raft. The whole log
// counts, also its end, which may not be committed: a command there is one whose caller had no answer.
//
//	loss      the folders have                                       so
//	none      a majority of the group's voters                       every committed entry is in the newest replica
//	possible  a minority, and no voter was seen ahead of the newest  the last moments may be missing
//	certain   a minority, and another voter was seen ahead           at least the entries up to that one are missing
//	whole     no replica of the shard                                all tasks of the shard are missing
//
// "Seen" is the record that each node keeps of the others' positions: see package witness.
//
// # What changes
//
//   - The cluster and its node get new ids. All checks that keep clusters apart then keep the lost nodes out: the marks
//     on each group's files, the greeting on the peer port, gossip, and the ids in each call. So a lost node that
//     returns with its old disk takes no part in this cluster, and cannot vote in it or undo any of its entries. It
//     joins with an empty folder.
//   - The only node in the control state's map is the new one, which registers itself. It has the only replica of each
//     shard. Orders about nodes, operations under way, records of backups and tokens end. Policies, slots, versions,
//     keys, namespaces and the replication factor stay. A key is valid again if its revocation is among the lost
//     entries.
//   - Each shard's counter rises by 2^40. The lost nodes may have given numbers that the survivors do not know. A fence
//     must not fall, and a webhook id must not name two occurrences.
//   - Tasks, leases, receipts, remembered idempotency keys and tombstones stay as the newest replica has them. The new
//     leader takes over from them as it would after a failover.
//   - The folders of the survivors stay as they are, and no part of them is used afterwards.
//
// # Crashes
//
// The new folder is marked until all is on the disk (package identity): no node opens it, and only another recovery or
// restore may begin there, from the start.
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
//
// A lost majority that returns can still serve its old cluster by itself. No protocol prevents that, since these nodes
// are a majority in their own records. So the disks must be gone, or kept off.
package recovery
