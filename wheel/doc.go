// Package wheel orders handles by their due. It is a pure data structure: it reads no clock, takes no lock, does no I/O
// and holds no task. The caller passes the time in, as Unix milliseconds in an int64. One tick is one millisecond.
//
//	Insert, Reschedule, Remove   change the due of a record
//	Next                         the due of the earliest record
//	Advance                      pops the records that are due
//
// # Guarantees
//
//   - Records come out in the order of (due, seq), whatever happened inside before. Two wheels with the same records
//     pop the same handles in the same calls, even if one of them was rebuilt from a snapshot a moment ago. So all
//     restructuring is invisible. Advance pops exactly as many records as are due or as its limit allows: never fewer
//     because it had other work to do.
//   - Next is exact, not the beginning of some slot. The caller sleeps until then, and each Advance that pops no record
//     would cost a log entry.
//   - No record is popped before its due, even if the position was pushed into the future and records are inserted
//     behind it.
//   - There are no pointers. A record is a Node of 24 bytes in a slab of the caller's, linked by 32-bit handles, so the
//     garbage collector has nothing to scan.
//
// # How it works
//
// Eight levels of 64 slots, after Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987). A slot of level l
// spans 64^l ms. A record goes to the level of the highest base-64 digit in which its due differs from the cursor, the
// first instant that the slots still serve. Occupancy bitmaps find the first slot of each level. So an idle wheel never
// ticks, and a follower that was not advanced for a day is as good as one that was.
//
// Each slot keeps a lower bound of its dues. The algorithm relies on that bound and not on the place of a record. The
// slot with the lowest bound is the front. A front that may hold a due record is opened: it is gathered and sorted once
// if all of it is due, else cascaded to lower levels. So a reschedule to a later time merely writes the record and
// leaves it where it is. The bound stays true, and the record moves when its slot is opened.
//
// Two small structures lie beside the slots:
//
//	heap  the records that the slots cannot take: at or before the position, or more than some 8900 years away
//	run   the sorted rest of the slot that was gathered last
//
// One slot can hold millions of records (a slot of level 4 spans 4.66 hours). Cascading such a slot when its time comes
// would stall the caller for a tenth of a second. So each level has two rings of slots. One is for the window with the
// cursor. The other takes the contents of the first crowded slot of the level above, ahead of time and in small steps
// that the calls in between pay for: see lookahead.go. One kind of caller still waits for that work: it builds up a
// crowd, and then lets time jump into the crowd or cancels its earliest record, without calls in between that would
// have paid for the work.
//
// # Left to others
//
// The caller owns the memory and its before-images (Nodes), locking, the meaning of a handle, and the sequence numbers.
// A handle must never leave the process, since replicas number their records differently.
//
// # Why not otherwise
//
//   - A heap or a B-tree over everything: a cache miss a level, four to ten times the cost of an insert, and Go's are
//     made of pointers that cost the collector seconds with ten million records.
//   - Ticking through every slot: costs an idle node its sleep, and a late one a million empty steps.
//   - The beginning of the first slot for Next: the caller would wake up to seven times for one far record.
//   - Popping fewer than the limit when a cascade takes long: replicas with different insides would part.
package wheel
