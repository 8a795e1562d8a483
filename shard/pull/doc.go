// Package pull is the desk at a shard's leader where consumers' demands wait for due tasks.
//
// # How a task gets to a consumer
//
// A demand names a lane, a lease and a total: how many tasks it may get over its life, a number that its consumer
// raises as it is ready for more. While it has room its lane's name and its tag ride in every entry that may grant
// something: in an Advance as credit, in a Grant if tasks are waiting already. So a task that comes due is leased by
// the very entry that finds it due, a horizon before its instant. The grant comes back with the tag (Granted), is held
// to its instant by whoever holds pushed ones too, and is then handed over with its payload (Start). A demand that
// waits costs one map entry and one list element, and nobody looks at it in between.
//
// Whoever was served longest ago is served first.
//
// # Nothing is lost, nothing is handed over twice
//
// Each grant that answers a demand ends in one of three ways: it is handed to one consumer, or it is given back
// uncounted, or, if its leadership ended before, it runs out with its lease. When a demand has gone meanwhile, or was
// lowered, its tasks go to another one of the same lane and terms. If there is none just then, they lie on a shelf for
// some milliseconds before they are given back, and less if they keep somebody waiting. A demand that has gone is
// remembered until the last entry that names it has been applied and its last grant has been started.
//
// What is on its way to one consumer is bounded in bytes: one that does not say what has arrived gets no more until it
// does, so a node that hangs holds up neither the desk nor others.
//
// # Nothing there
//
// A demand may ask whether anything is there for it. The proposer answers, between two entries: what was due when the
// question came has been found due, and nothing of it waits in the lane for a grant. A demand to which a grant is on
// its way is answered after that. So tasks that were there come before the answer, on the same way.
//
// # Left to others
//
// Which lanes get how much (pauses, limits): the proposer, which asks for Wishes. Instants: the firing queue. How a
// task travels to a consumer at another node: package cluster/pull.
//
// # Why not otherwise
//
// Not one demand for each call of a consumer: it would have to be withdrawn at all other shards at each arrival, and
// be named anew in the next entry. Not a stock of tasks at the desk, leased before anybody asks: their leases would
// run, and other consumers would not see them.
package pull
