// Package verify looks at the data folder of a node that is stopped, and says what is in it and what is wrong.
//
// For each group it reads every snapshot and restores it (its own checksum, and the hash in its trailer), opens the log
// as a starting node would (checksums, gaps, what was torn or lost: see raftgroup/logstore), and applies the log on top
// of the newest snapshot. So what passes here starts, and what does not would be refused.
//
// It writes nothing there. Opening a log repairs what a crash has left, so it is done on a copy, group by group, in a
// temporary folder; and the node's lock is held meanwhile, so that it cannot start.
//
// # What it cannot see
//
// The last entries of a log may not have been committed, and are applied all the same: the state shown is that after
// the last entry. That the whole folder is an old copy: only other nodes can tell, and do when the node starts (package
// witness). A log that ends before what its node had noted as applied is found, also where segments and journal lost
// the same part; that its very last write is missing may not be.
// And whether the state is right: that is what other replicas say, whose hash at the same index must be the same
// (package compare). A bolt log has no checksums of its entries.
package verify
