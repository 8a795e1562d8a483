// Package bench measures a cluster from outside: how long calls take, and how late tasks arrive.
//
//	plan ──▶ callers ──Schedule, Cancel──▶ cluster ──Consume or webhook──▶ receiver
//	            └────────────▶ ledger ◀────────────────────────────────────────┘
//
// The figures are made as follows:
//   - Calls begin at planned times, whether or not earlier ones have ended. The latency of a call counts from its
//     planned time. A stall thus counts in all calls that it delays (no coordinated omission). At the rate 0 there is
//     no plan: each caller calls again once its last call has ended, and the latency is that of the call.
//   - Every task is due between minDelay and maxDelay after the call, so that a slow call makes no task late.
//   - Lateness is the time between the due time and the receipt. The due time is the cluster's, the receipt is this
//     machine's: Clock estimates the difference of the clocks, with a bound of its error. Lateness includes the way to
//     the receiver.
//   - Lost is a task whose call succeeded, that was not cancelled, and that has not arrived Grace after its due time. A
//     call whose outcome is unknown counts as failed, and its task is neither lost nor wrong if it arrives.
//   - Percentiles are exact: all samples are kept, 8 bytes each.
//
// All tasks are in one queue of a random name, which Run empties and removes when it ends, also by a signal.
package bench
