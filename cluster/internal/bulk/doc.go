// Package bulk makes one call on every task of a namespace that passes a filter: it cancels, moves, patches, fires or
// replays the tasks, or removes dead letters. The control group keeps the record of each operation, and the group's
// leader carries the operation on.
//
//	   step                          control log   after a crash
//	1  list the next page            -             the page is listed again
//	2  wait for the rate             -             likewise
//	3  pin the page: its tasks, and  PinBulk       the pinned tasks are read from the record
//	   where the walk goes on
//	4  make the calls                -             the calls are made again, with the same keys
//	5  count the outcomes            CountBulk     the next page is listed
//
// The operation is done once its last page is counted. A StopBulk ends it at once, or after step 5 if a page is pinned:
// the calls of that page may have been made.
//
// Rules:
//
//   - Each pinned task is counted once, because CountBulk names the page, and a page has at most one.
//   - Each call has a key made of the operation and the task. A repeat after a crash gets the recorded answer and
//     changes nothing. The walk passes each id once, so no task gets two calls.
//   - A removed dead letter has no record with an answer. A repeat of a purge that finds no task counts it as purged.
//   - A task that changes between steps 1 and 4 gets the outcome that its new state gives. A move by a duration,
//     and a patch of the target's URL, name the revision from the list, and read the task again after a change.
//   - A patch does not lead stored credentials to another host: such a task is refused.
//   - A task that is created behind the walk is not seen.
//   - Schedules are no tasks. Their occurrences are.
//   - All operations together make Rate calls a second. They wait for one limiter, and so take turns.
//   - The deletion of a namespace stops the operations in it, in the same entry of the log.
//
// Why not one command for each shard, applied by the state machine? It would stop the shard for as long as the walk
// takes. Why not count what the calls of a page changed without pinning it? After a crash, a repeated list would lack
// the tasks that no longer pass the filter, and their outcomes would be lost.
package bulk
