// Package journal makes the writes of many files durable with one sync.
//
// A node's shards have a log each, and each append to a log must be on the disk before it counts. A sync for each costs
// far more than the bytes: the disk does a few hundred or thousand in a second, and each costs processor time. Here a
// write goes to its file as ever, unsynced, and once more into the journal, together with the writes of all other files
// that came while the journal was being synced. When that returns, all of them are durable; nobody ever waits for
// company. Whoever finds no sync under way does it itself.
//
// # On the disk
//
// Two segments of equal size, filled with zeros when they are made, are written in turns. A frame is what one sync
// made durable: writes, each with the path of its file, its offset and its bytes. Frames begin at multiples of 512
// bytes, carry a checksum, a number that rises by one, and the epoch, which rises whenever writing changes to the
// other segment.
//
// When a segment is full, writing goes on in the other one, and the files that the full one is about are synced beside
// it. Until they are, it is not written over.
//
// # At the start
//
// Open writes again into the files what the last two epochs say, in order, and syncs them: before the files are used.
// After a loss of power this is what makes them whole; after the death of a process it changes nothing. Then it begins
// anew: a frame says that whatever came before is void. A file that is gone is passed over: it was deleted.
//
// A frame that is not whole was never acknowledged, if it is the last. If a later one is there, something that was
// acknowledged is gone, and Open says so (ErrDamaged).
//
// # What it relies on
//
// Files that are written through it are only ever appended to, or written over with what was there: a journalled write
// may come again over what has been in the file for long. A folder whose files begin anew under old names is to be
// forgotten first (Forget). What is large, or the first of a new file, is synced in the file itself.
//
// # Why not otherwise
//
// Not one log for all shards: it could be cut only where all are done with it, and one that is slow would hold the
// space of all. Not syncfs: it writes out what others have written to the same file system, snapshots for example.
package journal
