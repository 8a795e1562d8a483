// Package logstore keeps the log, the term and the vote of a Raft group.
//
// A group owns one folder:
//
//	LOCK        held while the folder is open, so that two processes never share it
//	stable.db   term and vote (raft-boltdb); small, because an election writes it three times
//	wal/        the log, as segments of 4 MiB and their meta database (raft-wal), or
//	log.db      the log in raft-boltdb, if Config.Kind says so
//
// # Writes
//
// A write that returned nil is on the disk. The first write that fails, or that takes longer than the timeout, is the
// last one: every later write fails with the same error, and Config.Fatal ends the process. The reasons:
//
//   - A second fsync after a failed one may succeed without the data, because the kernel counts the pages that it could
//     not write as written.
//   - hashicorp/raft itself only steps down on a failed append, to be elected again later.
//   - A disk that hangs is worse, since heartbeats go on.
//   - raft-wal makes writes by itself and only logs their errors: rotating a segment, and deleting one.
//
// The next process on the machine still reads the unwritten pages. If Open finds the note of a failed write, it first
// writes all its files again. In any case it syncs the files that it finds: a process killed during a write leaves
// bytes that can be read and need not be on the disk yet.
//
// With Config.Journal an append is on the disk once it is in the journal that all groups of a node share (package
// journal), and in its own file a little later. The journal is opened before the stores, and restores the bytes that a
// loss of power has taken from the file. Open then makes the journal forget this folder, because another group may have
// lived there before under the same names.
//
// # Opening
//
// Open returns a log that Raft can start from, or an error with the reason:
//
//	a file or entry is lost   refused: a voter that forgot its log or its vote can undo acknowledged entries. The
//	                          replica must be removed by a membership change and come back empty
//	damage                    refused: hashicorp/raft panics on an entry that it cannot read, and raft-wal takes a
//	                          damaged batch in its newest segment for the end of the log
//	a torn last write         cut off: it was never acknowledged
//
// To distinguish damage from a torn write, every entry carries a checksum and the last index that was on the disk
// before its own write began. An intact entry beyond the readable end of the log proves that acknowledged entries are
// gone, if more was on the disk at its write than can be read now. Two losses cannot be proved: the loss of the very
// last write, whole, after its fsync; and the loss of the newest segment's file, which looks like a crash just before
// the file was made.
//
// # Faults of raft-wal v0.4.2 mended here
//
//   - Cutting the tail of the newest segment leaves it sealed without an index: after a restart it cannot be read
//     (hashicorp/raft-wal issue 31). Here such a segment is opened by scanning it.
//   - A crash after a segment is sealed and before the rotation is recorded leaves a log that refuses every append. So
//     does a torn write of a sealing batch. Open finishes such a rotation and cuts off the torn write.
//   - A deletion that overtakes the rotation of the segment that it empties ruins the order of the segments. Here
//     deletions wait.
//   - Deleted segments are removed, and their folder is synced for each, while the log is locked. Here they are removed
//     beside the log's writes: see removals.
//   - Errors of a rotation are only logged. Here they end the process.
//   - Close leaves the meta database open. Here Close closes both.
//   - An entry that was deleted from the head of the newest segment stays readable. Here it is not found.
//   - A read that meets a deletion may find its file closed. Here the read is repeated.
//   - A log with another codec is recorded as one with raft-wal's, and cannot be opened again. Here it can.
//   - A segment that found no room, or whose maker was killed, stays as a short file, and the next start writes into it
//     as if its space were reserved. Here it is made anew, and a start without room fails.
//   - Entries are read back without any check of their content. Here each carries a checksum.
//
// # Left to the caller
//
//	Snapshots                                     Config names the end of the newest valid one
//	Whether the group was ever opened on a node   Config.Existing: an emptied folder looks like a new one
//	The end of the process                        Config.Fatal
//
// # Why not otherwise
//
//   - Not one bolt file for all groups: each election would wait for the others'.
//   - Not the wal's own stable store: its meta database is rewritten by every rotation.
//   - Not a goroutine that owns the disk: a timer per write costs a fraction of a microsecond, two goroutine switches
//     would cost several.
package logstore
