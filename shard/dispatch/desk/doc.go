// Package desk holds, at a shard's leader, the demands of consumers that wait for due tasks.
//
// # How a task gets to a consumer
//
//	Open, Set   a demand names a lane, a lease and a total: the tasks that it may get over its life
//	Wishes      every entry that may grant tasks names the lane and the tags of the demands with room
//	Granted     the entry's grants come back with the tags; the firing queue holds them to their instants
//	Start       the tasks are handed over with their payloads
//	Set         the consumer raises the total as it is ready for more
//
// In detail:
//
//   - In an Advance, a demand is a credit. For tasks that wait already, it is part of a Grant. So the very entry that
//     finds a task due leases it, a horizon before its instant.
//   - A waiting demand costs one map entry and one list element, and no work meanwhile.
//   - The demand that was served longest ago is served first.
//
// # No task is lost, no task is handed over twice
//
// Each grant for a demand ends in one of three ways: the desk hands it to one consumer, or gives it back uncounted, or
// it runs out with its lease because its leadership ended before.
//
//   - If the demand has gone or was lowered meanwhile, its tasks go to another demand of the same lane and terms.
//   - Without such a demand, the tasks lie on a shelf for some milliseconds before they are given back. The
//     time is shorter if they hold other demands up.
//   - The desk remembers a withdrawn demand until the last entry that names it has been applied and its last grant has
//     been started.
//   - The tasks on their way to one consumer are bounded in bytes. A consumer that reports no arrivals gets no more
//     tasks until it does, so a node that hangs holds up neither the desk nor other nodes.
//
// # Nothing there
//
// A demand may ask whether a task is there for it. The proposer answers between two entries, once the wheel has popped
// all tasks that were due at the time of the question and none of them waits in the lane for a grant. A demand to which
// a grant is on its way gets its answer after the grant. So the tasks come before the answer, on the same way.
//
// # Left to others
//
//	proposer         decides how much each lane gets (pauses, limits), and asks for Wishes
//	firing queue     holds tasks to their instants
//	cluster/consume  brings a task to a consumer at another node
//
// # Why not otherwise
//
//   - Not one demand for each call of a consumer: each arrival would withdraw it at all other shards, and the next
//     entry would name it anew.
//   - Not a stock of tasks at the desk, leased before any demand: their leases would run, and other consumers would not
//     see them.
package desk
