// Package verify inspects the data folder of a stopped node, or a backup, and reports its content and its damage.
//
//	Folder  a data folder
//	Reader  a data folder, group by group, with the state of each (for package recovery)
//	Backup  a backup: the checksums of its pieces and of the whole (package backup), and each shard's state
//
// For each group of a folder it
//
//   - reads every snapshot and restores it (its own checksum, and the hash in its trailer)
//   - opens the log as a starting node would (checksums, gaps, torn or lost entries: see raftgroup/logstore)
//   - applies the log on top of the newest snapshot
//
// So a node starts from a sound folder, and would refuse an unsound one.
//
// Verify writes nothing into the folder. To open a log repairs the damage of a crash, so verify opens a copy, group by
// group, in a temporary folder. It holds the node's lock meanwhile, so that the node cannot start.
//
// # Limits
//
//   - The last entries of a log may not have been committed, and are applied all the same: the state shown is that
//     after the last entry.
//   - Verify does not notice that the whole folder is an old copy. Only other nodes can tell, and do when the node
//     starts (package cluster/internal/witness).
//   - Verify finds a log that ends before the entry that its node had noted as applied, also where segments and journal
//     lost the same part. It may miss that the very last write is missing.
//   - Verify does not know whether the state is right. Other replicas do: their hash at the same index must be the same
//     (package cluster/internal/compare).
//   - A bolt log has no checksums of its entries.
package verify
