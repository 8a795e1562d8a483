// Package logstore keeps the log, the term and the vote of a Raft group.
//
// A group owns one folder:
//
//	LOCK        held while the folder is open, so that two processes never share it
//	stable.db   term and vote (raft-boltdb); small, because an election writes it three times
//	wal/        the log, as segments of 4 MiB and their meta database (raft-wal), or
//	log.db      the log in raft-boltdb, if Config.Kind says so
//
// # Promises
//
// A write that returned nil is on the disk. The first write that fails, or that takes longer than the timeout, is the
// last one: every later write fails with the same error and Config.Fatal ends the process. A second fsync after a
// failed one may succeed without the data (the kernel takes the pages that it could not write for written), and
// hashicorp/raft itself only steps down on a failed append, to be elected again later. The next process on the machine
// still reads those pages; so Open, where it finds the note that a write has failed, first writes again all that it
// reads. In any case it syncs the files that it finds: a process that was killed while it wrote leaves bytes that can
// be read and need not be on the disk yet. A disk that hangs is worse, since heartbeats go on. The same holds for the
// writes that raft-wal makes by itself, and whose errors it only logs: rotating a segment, and deleting one.
//
// With Config.Journal an append is on the disk once it is in the journal that all groups of a node share (package
// journal), and in its own file a little later. Opening the journal, which comes before Open, restores the bytes that a
// loss of power has taken from the file. Open then has the journal forget this folder, for another group may have lived
// there before under the same names.
//
// Open returns a log that Raft can start from, or an error that says why there is none. It refuses a folder that has
// lost something: a voter that forgot its log or its vote can undo what a majority acknowledged, so such a replica must
// be removed by a membership change and come back empty. It refuses damage as well, since hashicorp/raft panics on an
// entry that it cannot read, and raft-wal takes a damaged batch in its newest segment for the end of the log. A torn
// last write is no damage: it was never acknowledged, and is cut off.
//
// To tell the two apart, every entry carries a checksum and the last index that was on disk before its own write began.
// An intact entry beyond the readable end of the log, written when more was on disk than can be read now, proves that
// acknowledged entries are gone. Two losses cannot be proved: that of the very last write, whole, after its fsync; and
// that of the file of the newest segment, which looks like a crash just before the file was made.
//
// # Faults of raft-wal v0.4.2 that it works around
//
//   - Cutting the tail of the newest segment leaves it sealed without an index: after a restart it cannot be read
//     (hashicorp/raft-wal issue 31). Such a segment is opened by scanning it.
//   - A crash after a segment is sealed and before the rotation is recorded leaves a log that refuses every append.
//     So does a torn write of a sealing batch. Open finishes such a rotation and cuts off the torn write.
//   - A deletion that overtakes the rotation of the segment it empties ruins the order of the segments. Deletions wait.
//   - Deleted segments are removed, and their folder is synced for each, while the log is locked. Here they are removed
//     beside its writes: see removals.
//   - Errors of a rotation are only logged. Here they end the process.
//   - Close leaves the meta database open. Here both are closed.
//   - An entry that was deleted from the head of the newest segment stays readable. Here it is not found.
//   - A read that meets a deletion may find its file closed. It is tried again.
//   - A log with another codec is recorded as one with raft-wal's, and cannot be opened again. Here it can.
//   - Entries are read back without any check of their content. Here each carries a checksum.
//
// # Left to the caller
//
//   - Snapshots: Config says how far the newest valid one reaches.
//   - Whether the group was ever opened on this node: Config.Existing says so, for an emptied folder looks like a new
//     one.
//   - How the process ends: Config.Fatal does that.
//
// # Why not otherwise
//
// Not one bolt file for all groups: each election would wait for the others'. Not the wal's own stable store: its meta
// database is rewritten by every rotation. Not a goroutine that owns the disk: a timer per write costs a fraction of a
// microsecond, two goroutine switches would cost several.
package logstore
