// Package verify looks at the data folder of a node that is stopped, and says what is in it and what is wrong.
//
// For each group it reads every snapshot and restores it (its own checksum, and the hash in its trailer), opens the log
// as a starting node would (checksums, gaps, what was torn or lost: see shard/logstore), and applies the log on top of
// the newest snapshot. So what passes here starts, and what does not would be refused.
//
// It writes nothing there. Opening a log repairs what a crash has left, so it is done on a copy, group by group, in a
// temporary folder; and the node's lock is held meanwhile, so that it cannot start.
//
// # What it cannot see
//
// The last entries of a log may not have been committed, and are applied all the same: the state shown is that after
// the last entry. That a whole log is an old one, of a folder that was copied back, or that its last write is missing.
// And whether the state is right: that is what other replicas say, whose hash at the same index must be the same
// (package compare). A bolt log has no checksums of its entries.
package verify
