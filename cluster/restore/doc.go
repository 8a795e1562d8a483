// Package restore makes the data folder of a new cluster of one node out of a backup, while no node runs.
//
//	backup ─▶ read, check ─▶ slot of each task ─▶ fsm.Rebuild of its new shard ─┐
//	                                                                            ▼
//	                 node.json, witness, groups/0000 … ◀─ snapshots ◀─ overdue: fire, hold, dead
//
// # What stays
//
// Revisions, fences, webhook ids, receipts, remembered idempotency keys, tombstones, dead letters, and all policies.
//
// API keys, that keys are in force, and namespaces. So a restore opens nothing that was closed, and the callers need no
// new keys. A key that was revoked after the backup is valid again; the report tells the number of keys, as a reminder.
// The deletion of a namespace goes on. Its operation is gone, because operations are about nodes of the old cluster.
//
// # What changes
//
//   - The cluster and the node get new ids. So the nodes of the old cluster take no call of this one. The check that
//     recognises old copies of a folder (package witness) has nothing to recognise, since no node has seen this one.
//   - Tasks go to the shards that own their slots now. There may be any number of shards.
//   - Attempts and leases that were under way are given back uncounted: their tasks are due again. A receiver may
//     get such an attempt twice, with the same webhook id. A consumer's receipt of such a lease is refused.
//   - Numbers of two old shards may be equal. Each new shard counts on above all of them, and remembers the origins of
//     its old webhook ids: see fsm.Rebuild.
//
// # Overdue
//
// A task is overdue if it fell due between the backup and the restore.
//
//	fire  it is attempted as soon as the node runs
//	hold  every queue with a task that is due is paused, until an operator resumes it
//	dead  it becomes a dead letter, which can be replayed
//
// A task that was due at the backup already stays due with fire and dead.
//
// # Crashes
//
// The folder is marked until all is on the disk (package identity). The whole backup has been read and checked before
// anything but the mark is written. The tasks are in memory meanwhile, where the node will need them too.
package restore
