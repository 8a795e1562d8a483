// Package lend keeps a queue's limits over all shards. One shard, the queue's owner, lends permits to the leaders of
// all shards, its own included.
//
//	Borrower (a shard's leader)                       Lender (the owner's leader)
//	-----------------------------------------------   -------------------------------------------
//	Borrow: in flight, unused permits, wanted    -->  counts the report for one Life
//	begins an attempt for each permit            <--  Loan: permits, once they are free
//
// Rules of both sides:
//
//   - A permit is the right to begin one attempt or lease. The owner lends so that the sum of permits and attempts
//     stays within max_in_flight. A token bucket keeps max_per_second; lending charges it.
//   - A Borrower has at most one call under way for its queue, and none when it has no report to make.
//   - Borrowers without permits wait in line, first come, first served, and share the free permits. A call waits at the
//     owner, so that borrowers need not poll.
//   - A Lender is the memory of one leadership. None of it is in the log.
//
// # Guarantees
//
//   - The limits are exact while the owner and the borrowers live and reach each other.
//   - A new owner lends nothing for one Life. By then it has the reports of all attempts under way, or their holders
//     have stopped using their permits.
//   - One gap remains: a shard that changes its leader, or cannot reach the owner, for longer than a Life. The owner
//     then stops counting attempts that may still run.
//   - A lower limit ends no running attempt.
//
// # Why not otherwise
//
//   - Not a share of the limit for each shard: a limit may be smaller than the number of shards, and an unused share is
//     lost.
//   - Not permits in the log: they would cost a commit for each attempt, and a limit is not worth as much as an
//     acknowledged task.
//   - Not gossip: it is not exact at any time.
package lend
