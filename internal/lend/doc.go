// Package lend keeps a limit over a whole cluster. One leader, the owner, lends permits out of a pool to the borrowers:
// the leaders of all shards, or all nodes.
//
//	borrower                                           Lender (the owner)
//	------------------------------------------------   -----------------------------------------------
//	Borrow: in flight, unused permits, wanted     -->  counts the report for one Life
//	uses a permit for each attempt, lease or call <--  Loan: permits, or how long there are none
//
//	              borrower   of              waits at the owner   terms      while the owner cannot be reached
//	              --------   -------------   ------------------   --------   ---------------------------------
//	Borrower      a leader   tasks           yes                  OfQueues   nothing begins
//	Meter         a node     calls, by rate  no                   OfRates    goes on at the rate that it had
//
// Rules of both sides:
//
//   - A permit is the right to begin one attempt or lease, or to make one call. The owner lends so that the sum of
//     permits and attempts stays within Limit.InFlight. A token bucket keeps Limit.PerSecond; lending charges it.
//   - A borrower has at most one call under way for a limit, and none when it has no report to make.
//   - Borrowers without permits stand in line, first come, first served, and share the free permits: those whose tasks
//     have the best priority first. A borrower in line that has no call under way is left its part until its report
//     lapses. So borrowers get equal parts of a limit that is too small for all of them.
//   - A call waits at the owner, so that borrowers need not poll, or gets its answer at once.
//   - Borrowers use a permit for one Life from their request on, and the owner counts a report for one Life from its
//     arrival on. Both go by their monotonic clocks, so the clocks of two nodes are never compared.
//   - A Lender is the memory of one leadership. None of it is in the log.
//
// # Limits of attempts
//
//   - The limits are exact while the owner and the borrowers live and reach each other.
//   - A new owner lends nothing for one Life. By then it has the reports of all attempts under way, or their holders
//     have stopped using their permits.
//   - One gap remains: a shard that changes its leader, or cannot reach the owner, for longer than a Life. The owner
//     then stops counting attempts that may still run.
//   - A lower limit ends no running attempt.
//
// # Rates of calls
//
//   - The sum over all nodes is exact, because one bucket lends all permits. The bucket holds one second's permits.
//   - A Meter draws for the next 20 ms of its own demand. So a load at a single node gets the whole rate, and permits
//     that lie at a node without a load are few.
//   - A call at a node without permits waits for one draw, a millisecond. Once the owner has said that there are none,
//     the node refuses without asking until there are some again. A storm of refused calls costs the other nodes
//     nothing.
//   - A node that does not reach the owner goes on at the rate that it had, or at an equal part of the limit if that is
//     more. The owner charges these permits later (Borrow.Spent). So a cut-off node costs the others up to its part of
//     the rate, or exceeds the limit by it, until it is back.
//   - The bucket of a new owner fills from the beginning of its leadership on, from a tenth of a second's permits.
//
// # Why not otherwise
//
//   - Not equal shares for all borrowers: a limit may be smaller than their number, an unused share is lost, and behind
//     a load balancer that keeps connections, all calls of a caller come to one node.
//   - Not shares by the demand of the last moment: a demand that moves to another node finds a share of zero there.
//   - Not permits in the log: they would cost a commit for each attempt, and a limit is not worth as much as an
//     acknowledged task.
//   - Not gossip, nor counts that all nodes tell each other: they are always old, and a storm passes any limit
//     meanwhile.
//   - Not a hop to the owner for each call: it costs a call more than its parsing.
//   - Not golang.org/x/time/rate: a bucket is twenty lines, and its reservations cannot be charged later.
//   - Not for the tasks and bytes of a namespace (package quota): they outlive each leadership and each loan, and a
//     shard without a leader keeps them. A report that lapses would forget them.
//   - Not for the groups of a queue (package groups of shard), but for the Bucket of their rates: an order needs the
//     news of all shards in each turn, and a limit of a group holds even while a shard changes its leader for longer
//     than a Life.
package lend
