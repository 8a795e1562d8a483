// Package journal makes the writes of many files durable with one sync.
//
//	appends of all groups ──▶ batch ──▶ one frame ──▶ segment, one sync ──▶ every append returns
//	                  └──▶ each group's own file, synced when the segment is full
//
// A node's groups have a log each, and each append to a log must be on the disk before it counts. A sync for each
// append costs far more than the bytes: a disk does a few hundred or thousand syncs in a second, and each costs
// processor time. So the journal works in this way:
//
//   - The write goes to its file, unsynced.
//   - The write also goes into the journal, together with the writes of all other files that came during the last sync
//     of the journal. When the sync returns, all of them are durable.
//   - No write waits for company: a write that finds no sync under way syncs by itself.
//
// # On the disk
//
//   - Two segments of equal size, filled with zeros when they are made, are written in turns.
//   - A frame holds the writes of one sync, each with the path of its file, its offset and its bytes. Frames begin at
//     multiples of 512 bytes. Each carries a checksum, a number that rises by one, the epoch, which rises whenever
//     writing changes to the other segment, and the number of the frame that has made all earlier ones void.
//   - When a segment is full, writing continues in the other one, while the files of the full segment's frames are
//     synced. A segment is overwritten only after that. The first frame of an epoch is one sector, which is never torn,
//     and has a sync of its own: from then on no frame under it counts.
//
// # At the start
//
//   - Open writes the frames of the last two epochs into the files again, in order, and syncs the files before they are
//     used. After a loss of power this makes the files whole; after the death of a process it changes nothing.
//   - Open also writes the bytes behind these writes again, unchanged. A failed sync may leave them in the kernel's
//     memory alone, and no later sync writes them.
//   - Open then writes a frame that makes all earlier ones void. It skips a file that does not exist, because it was
//     deleted.
//   - A last frame that is not whole was never acknowledged. If a later frame exists, acknowledged writes are gone, and
//     Open returns ErrDamaged.
//
// # Preconditions
//
//   - The owner only appends to a file written through the journal, or overwrites it with equal bytes: a journalled
//     write may be repeated over bytes that have been in the file for long.
//   - The owner must call Forget before the files of a folder begin anew under old names.
//   - A large write, and the first write of a new file, is synced in the file itself.
//
// # Why not otherwise
//
//   - Not one log for all shards: it could be cut only where all are done with it, and a slow one would hold the space
//     of all.
//   - Not syncfs: it writes out all other writes to the same file system, snapshots for example.
package journal
