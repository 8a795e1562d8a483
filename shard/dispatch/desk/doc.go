// Package desk is the desk at a shard's leader where consumers' demands wait for due tasks.
//
// # How a task gets to a consumer
//
// A demand names a lane, a lease and a total: how many tasks it may get over its life, a number that its consumer
// raises as it is ready for more. While the demand has room, its lane's name and its tag ride in every entry that may
// grant tasks: in an Advance as credit, in a Grant if tasks are waiting already. So a task that comes due is leased by
// the very entry that finds it due, a horizon before its instant. The grant comes back with the tag (Granted). The
// firing queue holds it to its instant, like pushed tasks. It is then handed over with its payload (Start). A demand
// that waits costs one map entry and one list element, and no work in between.
//
// The demand that was served longest ago is served first.
//
// # No task is lost, no task is handed over twice
//
// Each grant that answers a demand ends in one of three ways: it is handed to one consumer, or it is given back
// uncounted, or, if its leadership ended before, it runs out with its lease. When a demand has gone meanwhile, or was
// lowered, its tasks go to another demand of the same lane and terms. If there is none just then, the tasks lie on a
// shelf for some milliseconds before they are given back, and less if they hold others up. A demand that has gone is
// remembered until the last entry that names it has been applied and its last grant has been started.
//
// The tasks on their way to one consumer are bounded in bytes. A consumer that does not report arrivals gets no more
// until it does, so a node that hangs holds up neither the desk nor others.
//
// # Nothing there
//
// A demand may ask whether a task is there for it. The proposer answers between two entries, once all tasks that were
// due at the time of the question have been found due and none of them waits in the lane for a grant. A demand to which
// a grant is on its way is answered after the grant. So the tasks come before the answer, on the same way.
//
// # Left to others
//
// The proposer decides which lanes get how much (pauses, limits), and asks for Wishes. The firing queue keeps the
// instants. Package cluster/consume brings a task to a consumer at another node.
//
// # Why not otherwise
//
// Not one demand for each call of a consumer: it would have to be withdrawn at all other shards at each arrival, and be
// named anew in the next entry. Not a stock of tasks at the desk, leased before any demand: their leases would run, and
// other consumers would not see them.
package desk
