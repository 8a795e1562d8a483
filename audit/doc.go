// Package audit keeps records of the changes that callers make through a node, and of the calls that the node refuses.
//
//	Record   one call: caller, address, route, object, changed fields, outcome
//	Log      the records of one node: a journal of changes and a journal of refusals
//	journal  records of one kind in files of bounded number and size, with their writer
//	Page     some records of one log, oldest first
//	Merge    the pages of several nodes' logs as one
//
//	caller              Log                               files: the newest, and older ones
//	Reserve ─▶ room ─┐
//	Change  ─────────┴─▶ queue ─▶ writer of changes ──┬─▶ audit.jsonl
//	                                                  │   audit.jsonl.<number>
//	Refuse  ─▶ groups ──────────▶ writer of refusals ─┼─▶ audit.refusals.jsonl
//	                                                  │   audit.refusals.jsonl.<number>
//	                                                  └─▶ copies ─▶ standard output
//	Read    ◀── files of both journals, merged by time
//
// # Records
//
//   - A record names things and never quotes values: the names of the changed fields, not their contents. Texts that a
//     caller chooses are cut, and a text with a key, a token or a password in it is replaced as a whole: see Clean.
//   - Each record has an id: the name of its journal, which is drawn when the journal begins, and a number without
//     gaps. A reader goes on after a place, which is a position in both journals. A missing number is a lost record.
//   - A call that lasts has two records: one with the outcome begun, before it takes anything, and one at its end.
//
// # Changes
//
//   - A change is not carried out without room for its record: Reserve comes before the change, and fails if no room is
//     free for Patience. There are Rooms of them, for the changes under way and the records that wait for the disk.
//   - Change returns once the operating system has the record, so the record outlives a killed process. Change waits
//     for at most Patience, so a disk that hangs or is full delays calls. After that the record stays in the queue, and
//     is written when the disk takes records again, with no gap before its number.
//   - The record of a change is lost in two cases: the process dies before the disk takes the record, or the log closes
//     while the disk takes none. In the second case the node's log gets the record.
//
// # Refusals
//
//   - Refusals have files of their own, so that no number of them displaces a change.
//   - The first refusal of a group is recorded at once. A group is a source (an IPv4 address, or the /64 of an IPv6
//     address), a caller with accepted credentials or none, and a reason. Further refusals of the group are counted for
//     ten minutes, and one record with their number follows.
//   - Beyond MaxGroups in ten minutes, further groups with the same reason count as one, without a source. So a storm
//     from any number of sources takes most of a day to turn over the files of refusals.
//   - Refusals wait for nothing, and none is dropped on its way to the writer. A killed process loses the counts of the
//     last ten minutes. A write that fails loses its record, and the loss is counted and visible as a missing number.
//
// # Disks
//
//   - The writers wait for the disk, and hold no lock meanwhile. A disk that hangs delays changes by Patience until all
//     rooms are taken. It delays no refusal, no metric, and no reader beyond the reader's own context.
//   - A file is synced within a second after a write. A loss of power may take the last second.
//   - Failing returns the error of the last write, or that a write has not ended, for the doctor. The first of
//     consecutive failures is logged.
//   - A line that a loss of power has torn is cut off when the log is opened.
//   - Damaged lines stop no node. A line is damaged if it is no record, or if its id does not fit in with those of its
//     neighbours. When the log is opened, the ones at the end of the newest file are set aside, in a file of their own.
//     The others stay, and readers skip them: the node's log names the line, and its record counts as missing. A file
//     that has no record and does not begin as one may be another program's. Open refuses it.
//   - Another program may move, remove or empty the newest file. The log notices it within a second and begins a new
//     file. Read no longer finds the records in a moved file.
//   - The copy of the lines on standard output has a queue of 1,024 lines and delays no record. Further lines are lost
//     for the copy while its reader takes none.
//
// # Why not otherwise
//
// Not a record on the disk before each change, although it would outlive a process that is killed between a change and
// its record: each change would need a disk that works. The most important changes while a disk is full are those of
// the operator who drains its node. So a change needs room in memory only, and there is room for 8,192 changes.
//
// Not a group of equal changes: each has its own record, with its request id and its fields. A caller with the role
// operate can therefore turn the files of changes over, with some 300,000 changes. A collector of the copies keeps all.
//
// Not natefinch/lumberjack, nor its successor timberjack: both rotate by size and bound the number of files, but
// neither cuts a half-written line off, syncs, or says which file holds which record, and the goroutine of the first
// never ends. The rotation here is one rename and one removal.
//
// Not in the control group's log: each refused call would be a write on every node, and a node without a quorum, whose
// operators are busiest, could record nothing. So each node has its own log, and Merge joins them on demand.
//
// Not ordered by time alone: clocks differ, and a node that was away brings old records later. The cursor of merged
// pages therefore has a place in each log, so that a reader who follows it misses no record and gets none twice.
package audit
