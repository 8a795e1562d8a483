// Package moves carries the tasks of slots from the leader of one shard to the leader of another.
//
//	Source   at the source's leader: reads the tasks, and then their changes, in numbered batches
//	Target   at the target's leader: asks for batches, has them committed, and has the source seal the slots
//
// A move as these two see it:
//
//	Target                                         Source
//	asks for batch 1, without a session    ──────▶ begins to follow changes, and reads the first tasks
//	commits ImportTasks, asks for batch 2  ──────▶ reads on
//	few changes are left: has SealSlots committed  (by the source's leader)
//	asks on                                ──────▶ reads the last changes, adds the numbers of ReadySlots
//	commits ReadySlots
//
// Both are in memory only. A batch that did not arrive is asked for again under the same number. If one of the leaders
// changes, the other one answers ErrLost, and the move must begin anew under another number: copies of the former
// attempt may be of tasks that are gone.
package moves
