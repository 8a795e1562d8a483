// Package lend keeps a queue's limits over all shards: one shard, the queue's owner, lends permits to the leaders of
// the others, and to its own.
//
// A permit is the right to begin one attempt or lease. Borrowers tell the owner again and again what they have under
// way and what they still hold; the owner believes the newest word of each for a Life, and lends so that all of it
// together stays within max_in_flight. A token bucket keeps max_per_second; it is charged when permits are lent.
//
//	Lender    the owner's side. It is memory of one leadership, and nothing of it is in the log
//	Borrower  the side of one shard's leader for one queue: at most one call under way, and none when there is nothing
//	          to say
//
// Borrowers that find no permits wait in line, first come, first served; what is free is shared among those who wait. A
// call waits at the owner, so that nobody has to ask again and again.
//
// # What holds
//
// While owner and borrowers live and hear of each other the limits are exact. A new owner lends nothing for one Life:
// by then it has heard of everything that is under way, or those who held it have stopped using it. What remains is the
// shard that changes its leader, or cannot reach the owner, for longer than a Life: the owner then counts on its
// attempts no longer although they may still run. A limit that is lowered ends nothing that runs.
//
// # Why not otherwise
//
// Not a share of the limit for each shard: a limit may be smaller than the number of shards, and a share that nobody
// uses is lost. Not permits in the log: they would cost a commit for each attempt, and a limit is not worth what an
// acknowledged task is. Not gossip: it is not exact at any time.
package lend
