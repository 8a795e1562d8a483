// Package history keeps the events of tasks on the disk of one node, for all replicas of shards on it.
//
//	Store     the events of one node: opens shards, reads, applies the limits
//	Shard     the events of one replica: a buffer in memory, and segments on disk
//	Event     one thing that happened to a task, at a Position of the shard's log
//	Page      some events of a namespace in a shard, in order, with the gaps between them
//
//	Append ─▶ buffer ─▶ writer ─▶ active segment ─▶ sealed segments ─▶ keeper: limits, rewriting
//	             │                      │                 │
//	Read, Task ◀─┴──────────────────────┴─────────────────┘
//
// # Positions
//
//   - An event is a function of a log entry. All replicas of a shard have the same event at the same Position, so the
//     answers of several nodes merge by position.
//   - Append takes the entries of a shard in order. It ignores events at or before the last position that the shard
//     has, because a restarted node applies entries again.
//   - Missing events leave a Gap, and each Page that passes the gap has it. Gaps come from a full buffer, from Gap
//     (a replica that a snapshot restored), and from unreadable blocks.
//   - Events that the limits removed leave a floor, not a gap. A reader that asks for events before the floor gets a
//     *GoneError with the position to go on after.
//
// # Writing
//
//   - Append, Gap and Wait never wait for the disk. Append keeps the events in memory, and readers see them at once.
//   - Append encodes each event once, for the buffer and for its block. A reader decodes the blocks in the buffer that
//     have a key that it looks for, from at most 4 KiB before its position on: there, an event has all of its fields.
//   - The writer compresses every 64 KiB of events into a block, and the rest on Sync and Close. No timer flushes: a
//     crash loses no event, because the log still has its entry until Sync returns.
//   - Sync(index) comes before the log up to the index is cut. It records the index, so that Gap after a restart knows
//     the part that is really missing.
//   - When the disk takes no writes, the events wait in the buffer (Config.Buffer bytes), and the writer tries again
//     every second. Further events are dropped and leave one gap, until half of the buffer is free again.
//
// # Files
//
// A shard has a folder with segments that hold the events of all its namespaces in the order of their positions, and
// one small file, the mark, with the floors.
//
//	segment    header, blocks, directory, summary, trailer (the last three: sealed only)
//	block      magic, length and CRC of the head, head, body
//	head       first and last position, count, sizes, CRC of the body, Bloom filter of namespaces and tasks
//	body       events, each with its length and without fields that equal those of the event before, compressed
//	           with zstd
//	directory  the heads of all blocks
//	summary    range of positions, and the bytes of each namespace
//
// Files can be damaged, and other programs can remove them:
//
//   - A torn end of the active segment is cut when the shard is opened. An unreadable block is skipped, counted, and
//     reported as a gap. So is a segment whose file is missing.
//   - A damaged mark begins anew, with the floor in front of the oldest segment. The floors of namespaces and the index
//     of the last Sync are lost with it, so a restart may report a gap that is none.
//   - A sealed segment is never changed, except that an opened shard goes on with its newest one. Rewriting makes a new
//     file of a higher generation, which replaces the old ones by its range, also after a crash between the two steps.
//   - After an fsync that failed, the kernel may drop the blocks. A crash then shows them as a gap.
//
// # Limits
//
//   - Age removes whole segments whose last event is older.
//   - Bytes bounds each namespace over all shards of the node. The namespace's share of its oldest segment goes first:
//     the namespace's floor rises at once, and the segment is rewritten without the share when less than half of the
//     segment is alive. So a namespace may take up to twice its limit on disk, and its share of the active segments.
//     A segment is sealed at a 32nd of the limit, and at 64 KiB at least and 4 MiB at most.
//   - Total bounds all segments together. The oldest of the node go first.
//   - Erase rewrites each segment that has events of the namespace, at once.
//
// # Costs
//
//   - Descriptors: one for each shard, and one for each read under way. A segment is opened for a read and closed
//     after it.
//   - Memory: the buffers, the heads of the active segments (some 0.5 MiB a shard), some 300 bytes a sealed segment,
//     up to 32 MiB for the directories of sealed segments that were read, and some 380 bytes for each pair of shard and
//     namespace with events: 43 MB for 10,000 namespaces in 12 shards.
//   - Disk: a namespace with few events has no file of its own. It costs its events, and one entry of about 50 bytes in
//     the summary of each segment that has one of them.
//   - The events of a task are found by the Bloom filters: 16 bits for each task of a block, one block in 1,800 is
//     decompressed in vain.
//   - Reading a namespace decompresses at most one block for each of its events, since the filters have the namespaces.
//
// # Measurements
//
// On two cores of a cloud machine, with events of 127 bytes (BenchmarkAppend, BenchmarkRead):
//
//	Append                              0.4 µs an event for the caller
//	all of it, with writing and Sync    1.5 µs an event, 650,000 events/s
//	disk                                19.6 bytes an event
//	Task among 10 million events        7 ms, in one shard; 15 ms if no directory of a segment is in memory
//	Read of a page with a filter        20 ms for 80 events of one namespace in 20
//	opening a shard of 225 MB           20 ms
//
// # Why not otherwise
//
// Not bbolt, although the module has it already: with one bucket of events by position and one of keys by task, a
// million of the same events took 268 bytes and 11.6 µs each, with one commit for 10,000 events. Retention would delete
// key by key, and the file never shrinks.
//
// Not pebble or badger: an LSM tree sorts and merges keys, but events come in order already and only whole ranges go.
// Its compactions would write each event several times beside the journal of Raft. One instance for all shards would
// couple their Syncs, and one for each shard needs its own memory table and goroutines. Both bring many modules.
//
// Not s2: it decodes twice as fast as zstd, but its blocks are twice as large (ratio 2.2 against 4.3, BenchmarkCodec).
// Disk is what bounds the history. klauspost/compress was in the module graph before.
//
// Not files for each namespace: 10,000 namespaces in 12 shards would be 120,000 files of 4 KiB at least, and a Sync
// would sync thousands of them. Blocks of a mixture compress as well, because names repeat.
//
// Not a timer that flushes: the log has every entry that Sync has not confirmed.
package history
