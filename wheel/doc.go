// Package wheel knows which handles are due. It is a pure data structure: it reads no clock, takes no lock, does no I/O
// and holds no task. Time is Unix milliseconds in an int64, handed in by the caller; one tick is one millisecond.
//
// # What it promises
//
//   - Records come out in the order of (due, seq), whatever happened inside before. Two wheels with the same records
//     pop the same handles in the same calls, also when one of them was rebuilt from a snapshot a moment ago. So all
//     restructuring is invisible, and Advance pops exactly as many as are due or as its limit allows: never fewer
//     because it had other work to do.
//   - Next is exact, not the beginning of some slot: its caller sleeps until then, and each Advance that pops nothing
//     would cost a log entry.
//   - Nothing is popped before its due, also if the position was pushed into the future and records are inserted
//     behind it.
//   - There are no pointers. A record is a Node of 24 bytes in a slab of the caller's, linked by 32-bit handles, and
//     the garbage collector has nothing to scan.
//
// # How it works
//
// Eight levels of 64 slots, after Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987). A slot of level l
// spans 64^l ms. A record goes to the level of the highest base-64 digit in which its due differs from the cursor, the
// first instant that the slots still serve. Occupancy bitmaps find the first slot of each level, so an idle wheel never
// ticks, and a follower that was not advanced for a day is as good as one that was.
//
// Each slot keeps a lower bound of its dues. Everything rests on that bound and not on where a record lies: the slot
// with the lowest bound is the front, and a front that may hold something due is opened, that is: gathered and sorted
// once if all of it is due, else cascaded to lower levels. Hence a reschedule to a later time merely writes the
// record and leaves it where it is. The bound stays true, and the record moves when its slot is opened.
//
// Two small structures lie beside the slots. A heap takes what the slots cannot: records at or before the position, and
// those more than some 8900 years away. The run is the sorted rest of the slot that was gathered last.
//
// One slot can hold millions of records (a slot of level 4 spans 4.66 hours), and cascading it when its time comes
// would stall the caller for a tenth of a second. So each level has two rings of slots: one for the window that the
// cursor is in, and one that takes the contents of the first crowded slot of the level above, ahead of time and in
// small steps, paid for by the calls in between: see lookahead.go. Only a caller that builds up a crowd and then lets
// time jump into it, or cancels its earliest record, without the calls between that would have paid for the work,
// waits for that work.
//
// # What it leaves to others
//
// Memory and its before-images (Nodes), locking, what a handle means, and the sequence numbers. A handle must never
// leave the process, since replicas number their records differently.
//
// # Why not the other way
//
//   - A heap or a B-tree over everything: a cache miss a level, four to ten times the cost of an insert, and Go's are
//     made of pointers that cost the collector seconds with ten million records.
//   - Ticking through every slot: costs an idle node its sleep, and a late one a million empty steps.
//   - The beginning of the first slot for Next: the caller would wake up to seven times for one far record.
//   - Popping fewer than the limit when a cascade takes long: replicas with different insides would part.
package wheel
