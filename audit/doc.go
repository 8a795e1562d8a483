// Package audit keeps records of the changes that callers make through a node, and of the calls that the node refuses.
//
//	Record   one call: caller, address, route, object, changed fields, outcome
//	Log      the records of one node, in files of bounded number and size
//	Page     some records of one log, oldest first
//	Merge    the pages of several nodes' logs as one
//
//	caller              Log                                    files
//	Change ───────────▶ number, encode ──▶ queue ──▶ writer ─▶ audit.jsonl              the newest
//	Refuse ─▶ groups ─▶                                        audit.jsonl.<number>     older ones, at most Files in all
//	Read   ◀──────────────────────────────────────────────────
//
// # Records
//
//   - A record names things and never quotes values: the names of the changed fields, not their contents. Texts that a
//     caller chooses are cut, and a text with a key or a signing secret in it is replaced as a whole.
//   - Each record has an id: the name of its log, which is drawn when the log begins, and a number without gaps. A
//     reader goes on after an id, and a missing number is a lost record.
//   - A refusal is recorded at once. Further refusals with the same caller, address, route and problem are counted for
//     a minute, and one record with their number follows. So a storm of refused calls neither fills the disk nor pushes
//     the changes out of the files. Beyond MaxGroups such groups, refusals of all further callers count as one.
//
// # Durability
//
//   - Change returns once the operating system has the record, so the record outlives a killed process. Change waits
//     for at most Patience: a disk that hangs delays calls, but stops none.
//   - The file is synced within a second after a write. A loss of power may take the last second.
//   - Refusals wait for nothing. A killed process loses those of the queue, and the counts of the last minute.
//   - A write that fails loses its record, not the node: the rest of the line is cut off, and the loss is counted and
//     logged once. Failing returns the error for the doctor, until a write succeeds again.
//   - A line that a loss of power has torn is cut off when the log is opened.
//   - Another program may move, remove or empty the newest file. The log notices it within a second and begins a new
//     file. Read no longer finds the records in a moved file.
//
// # Why not otherwise
//
// Not natefinch/lumberjack, nor its successor timberjack: both rotate by size and bound the number of files, but
// neither cuts a half-written line off, syncs, or says which file holds which record, and the goroutine of the first
// never ends. The rotation here is one rename and one removal.
//
// Not in the control group's log: each refused call would be a write on every node, and a node without a quorum, whose
// operators are busiest, could record nothing. So each node has its own log, and Merge joins them on demand.
//
// Not ordered by time alone: clocks differ, and a node that was away brings old records later. The cursor of merged
// pages therefore has a position in each log, so that a reader who follows it misses no record and gets none twice.
package audit
