// Package devclock provides the clock of a node in dev mode. A test sets it ahead, so that "after 48 hours"
// takes milliseconds. Such a node is a cluster of its own.
//
//	follows the dev clock                              keeps the machine's time
//	due times, delays, expires_after                   Raft, connections, the calls' own limits
//	retries, leases, retention, timeouts of attempts   max_per_second and max_in_flight
//	pauses of a receiver's breaker                     webhook-timestamp, API keys, certificates, the audit log, backups
//
// Signatures keep the machine's time because receivers compare them with their own clocks: a signature from the day
// after tomorrow is a replay or a fault to them. belfry-due and ce-time show when a task was due, by the dev clock.
//
// # An advance
//
// The clock is the machine's time plus an offset, which only grows. Between two advances, the clock runs like any
// other. An advance goes from instant to instant instead of jumping:
//
//	┌─▶ next    the earliest instant at which a shard has work: a due time, a retry, the end of a lease, of a
//	│           retention or of an attempt's timeout. After the target: set the clock to the target, and answer.
//	│   set     the clock to that instant
//	│   begin   commit Advances until no task is due and each schedule has its next instants, and wait until the
//	│           attempts that may begin have begun
//	└── end     wait until they have ended, and their outcomes are in the log
//
// So tasks come due in their order. A retry, or a task that the receiver schedules before it answers, has its place in
// that order, too. The log is the clock: each step is made of the same entries as in production.
//
// The last wait is bounded. It ends when the clock, which also runs by itself, has reached the target. So an attempt
// that comes due at the end of an advance has begun when the advance answers, and may not have ended. The wait also
// ends after two seconds without progress: the advance goes on without a receiver that hangs, and the attempt there
// times out when the clock passes its timeout. An advance waits in the same way for tasks that a queue's limit or a
// receiver's window holds back. No advance waits for the tasks of a paused queue, or for tasks that no consumer asks
// for.
//
// Advances take turns. An advance whose context ends leaves the clock where it stands. A repeat with the same key goes
// on to the same target, so that a repeated call never counts twice.
//
// # Why not otherwise
//
//   - Not one jump to the target: all tasks of a year would come due at once, every lease and retention of that year
//     would have ended, and a retry would follow a year after its attempt.
//   - Not a clock that runs faster: attempts take their own time, and a test would still wait.
//   - Not a fake of the service: the log, the wheel, the planner and the deliveries are those of production.
package devclock
