// Package fsm is the state machine of one shard: it turns committed commands into the same state on every replica.
//
//	fsm/task             the vocabulary: limits, errors, attempts, lanes, the slot of an id
//	fsm/fsmpb            the messages: commands, results, tasks
//	fsm                  the transitions: a table of commands, one applyX for each
//	fsm/internal/store   the tasks in memory, their wheel, lanes, queues, hash and snapshots
//	fsm/internal/slots   the part that each slot plays in moves between shards
//	fsm/internal/slab    the memory under the store, which the garbage collector does not scan
//	fsm/flaw             mistakes that test builds can be given
//
// A Machine applies an entry of the log under one lock. Its applier makes the transition of each command in these
// steps:
//
//	commandOf                 look up whether a caller made the command, and whether it needs a task
//	shut                      refuse a command on a task whose slot is not open
//	recall                    answer a call with a remembered key from the record
//	holds                     refuse a call whose condition does not hold
//	applyX                    make the transition, which writes through store.Change
//	remember, answer          keep the key with the result; add the task for the leader's caller
//
// # Determinism
//
//   - No code here reads a clock, a random number or a Go map's order. "Now" is the instant in the entry, and policy
//     arrives in the commands as plain numbers that the leader wrote.
//   - Applying the same entries therefore gives the same state, byte for byte where it counts. The state depends
//     neither on the process nor on the build nor on the snapshot that it was restored from.
//   - Every change of a task takes a number from one counter. The number is the task's revision, its place among tasks
//     of equal due time and, if the change is a grant, its fence. A schedule takes a new revision from calls only.
//   - A command that changes many tasks takes one number for each, so that no two changes share a number. The order in
//     the wheel is then total, and a replica restored from a snapshot pops equal dues in the same order as the others.
//
// # Precedence
//
//   - A task's terms (timeout, attempts) are its own, else its queue's, else the policy's. task.Terms.Or resolves
//     them.
//   - A tombstone's retention is set by its queue's rule, else by the policy. It counts from the instant of the entry
//     that ends the task.
//
// # Groups and priorities
//
//   - The tasks of a group have a lane of their own beside the lane of the receiver's other tasks.
//   - A ready task waits in the order in which it came due. With a group or a priority of its own, it waits by
//     priority, then due time, and only a Grant begins it. The Grant says whether priorities count.
//   - A group's lane stays open while a task of the group waits for its next attempt.
//
// # Isolated paths
//
//   - A path of a destination that fails may have a lane of its own (Isolate), beside that of the destination's other
//     paths. The leader decides on it. The paths are part of the snapshot.
//   - Isolate moves no task, because a million may wait. A Grant moves the tasks of isolated paths that it meets, at
//     most maxMoved of them. A task's record says in which of the lanes it is.
//   - A task that waits for its next attempt stays in the lane of its path. So the isolation ends only after the last
//     task that failed.
//   - Ready tasks without a group wait in two lists of each priority: fresh ones, and those with an ended attempt. A
//     target gets fresh ones first, and one of the others with every fourth grant. Consumers get them in the order in
//     which they became ready.
//   - A probe that fails (VERDICT_PROBED) is in the history and in the events, and takes back the count of its attempt.
//
// # Rules
//
//   - A queue's policy belongs to the control group and is part of no command. When it changes, the shard's leader
//     writes the part that applying commands needs, the rule, into the log. An Advance therefore stays a few bytes
//     long at any number of queues.
//   - A rule moves no task. A task waits where its queue and destination put it.
//   - An attempt that has begun ends as it began: the task itself records whether a consumer has it and when its lease
//     ends.
//
// # Schedules
//
// A schedule (a Series) is a record among the tasks of its slot, with the id {id}@. It waits in the wheel for the first
// of its coming instants. Its occurrences are tasks with the ids {id}@1, {id}@2, ….
//
//	the leader                          the log             every replica
//	computes instants from the rule  →  ExtendSeries     →  keeps them; the schedule waits for the first
//	                                    Advance          →  takes an instant off, numbers it, makes its task due
//	                                    Settle, Cancel   →  records the end, and starts the occurrence that waited
//
// Rules:
//
//   - No replica computes an instant. Time zone data may differ between nodes.
//   - The number is taken in the Advance that pops the schedule. So each instant in the log has one number, whatever
//     happens to leaders.
//   - A schedule keeps instants for at least five seconds ahead, more than a failover takes. An instant that is missed
//     by more than that is given up with all later ones, and the leader decides with the misfire policy.
//   - The overlap policy needs the ends of earlier occurrences, which only the state machine knows at that point of the
//     log. So the state machine applies it.
//   - An Advance has popped tasks that it has not carried on yet. So a schedule cancels its earlier occurrences at the
//     end of the command.
//   - The revision of a schedule changes with calls, not with its occurrences. Otherwise If-Match would hardly ever
//     hold.
//
// Why not a task that schedules its successor when it ends? A slow occurrence would delay all later ones. Why not all
// occurrences in advance? A change of the rule would have to find and cancel them.
//
// # Follow-ups
//
// A task, or its queue, may name the task that follows its end: on_delivered, on_dead. The command that ends the task
// makes it, under the id {id}@delivered or {id}@dead in the same slot.
//
//   - Store.NoteEnd, by which schedules learn of the ends of their occurrences, records the ends that have a follow-up.
//     The applier makes the follow-ups at the end of the command, when no task is being changed.
//   - A follow-up takes the place of an older task of its id, as a PUT does: a task that was scheduled again or
//     replayed ends again.
//   - The number of ends in its id bounds a row of follow-ups. So those of a queue cannot go in circles.
//   - The queue's follow-ups are part of its rule. So no value in them can be sealed, and they carry no credentials.
//   - Settle carries the receiver's status, and the beginning of its answer, only if a follow-up wants them.
//   - Tasks share follow-ups as parts of their manner, unless these bring payloads.
//
// Why not a second command by the leader? A crash between the two entries would lose the follow-up: the seeded flaw
// late-follow-up does so.
//
// # Rebuild
//
// Rebuild makes a machine out of other shards' tasks. Numbers, and with them revisions, fences and occurrences, are
// unique in one shard only.
//
//   - The new counter begins above all old ones, so that the fences of each task keep rising.
//   - A webhook id consists of a shard's random origin and the number of the occurrence. The new shard has an origin of
//     its own, and a table of the old ones by slot and number.
//   - Two tasks may have the same due time and number. One of them gets a new number in the wheel, and keeps its
//     revision in a progress record. Other scheduled tasks have one only while they wait for their windows.
//
// # Moves
//
// Slots move from a source shard to a target shard, with their tasks. Each command of a move has the move's number, may
// be repeated, and is refused if the slots have taken part in a later move.
//
//	phase at the source   entered by     calls on tasks        the wheel and lists
//	open                                 carried out           as ever
//	SEALED                SealSlots      moving                no task comes due or gets a grant
//	open                  UnsealSlots    carried out           overdue tasks come due
//	GONE                  DropSlots      moved to the target   the tasks are dropped in steps
//
//	phase at the target   entered by     calls on tasks        the copies
//	COMING                ExpectSlots    moving                come and go with ImportTasks
//	READY                 ReadySlots     moving                are complete
//	open                  OpenSlots      carried out           are tasks; overdue ones come due
//	GONE                  AbandonSlots   moved to the source   are dropped in steps
//
// Further rules:
//
//   - A move that is given up may not have reached both shards: SealSlots or ExpectSlots may still be on its way.
//     UnsealSlots and AbandonSlots therefore name the slots, and leave the number of the move at them as if its first
//     step had come. The late step is refused. Otherwise it would seal slots that no later move could open.
//   - The leader of the source reads the tasks with a Watch, which follows changes in memory. ReadySlots compares the
//     number of the copies and a sum of their hashes with those of the sealed tasks.
//   - A copy has its revision, fence, occurrence, remembered keys, history and the end of its lease. So receipts and
//     conditions hold at the target, and a lease or attempt of the source ends there.
//   - ReadySlots brings the number of the source's counter. The target counts on above it, so that revisions and fences
//     of a task keep rising, and remembers the source's origin for the webhook ids.
//   - A copy lies in the wheel from the beginning. An Advance parks it if it comes due too early. So millions of
//     scheduled tasks are open at once. OpenSlots puts only parked tasks, ready and firing tasks, and tombstones back
//     where they belong, slot by slot.
//   - Copies are neither listed nor counted. While slots are being opened or dropped, counts are a little too low or
//     too high.
//
// Why not a frozen copy? It would hold before-images of all pages for as long as the copy takes, and the next snapshot
// of the shard would wait. A copy of tasks at different instants, with all changes since, ends in the same state.
//
// # Not here
//
//   - Raft, disks, the clock and the network belong to the shard.
//   - The leader decides the length of a backoff, the number of attempts that a lane may have in flight, and each
//     consumer's share of them. It writes them down as instants and numbers. Replicas of different builds could
//     otherwise differ.
package fsm
