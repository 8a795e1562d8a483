// Package segment writes and reads one file of events.
//
//	Batch     encodes the events of a block
//	Writer    appends batches to a file as blocks, seals it
//	Contents  the range, usage and blocks of a file: read from its summary, or by a scan of its blocks
//	Key       the hash of a namespace or a task, for the filters of blocks
//
// The package documentation of history describes the format. A frame is
//
//	magic (4 bytes) · length of the head (4) · CRC-32C of the head (4) · head · body
//
// The head has the CRC of the body. A scan that meets a damaged frame goes on at the next whole frame. The positions
// between both become a gap. Without a further frame the damage is a torn end, and the contents stop before it.
//
// Bodies are compressed with zstd at its fastest level. Events of tasks repeat names, queues and labels, so a block of
// 64 KiB shrinks to a fifth. See BenchmarkCodec: s2 is faster than zstd in both directions, but takes more room.
package segment
