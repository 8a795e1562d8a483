// Package recur computes the coming occurrences of schedules, which the leader of a shard writes into the log. It is
// pure: the time, and the randomness of the jitter, come from the caller.
//
//	Extension   returns the next ExtendSeries of a schedule
//
// # Coming occurrences
//
// An ExtendSeries goes on behind the last occurrence that the schedule has. It adds at least one occurrence, until the
// schedule has two and has those of the next ten seconds, or has 64. Each fires at a random instant from its own to the
// end of its jitter, but not before its predecessor.
//
// # Missed occurrences
//
// The state machine drops the coming occurrences of a schedule when it meets one that fires more than
// task.MissedAfter late. Then the leader decides on all that were missed by so much, the jitter included:
//
//	missed by more than the window   they are passed
//	policy latest                    the last one runs late, and the others are passed
//	policy all                       the last thousand run late, and the others are passed
//	policy skip                      they are passed
//
// One command passes any number of occurrences of an interval. For a rule with expressions or exclusions, whose
// occurrences must be counted one by one, it passes up to ten thousand. A command may pass occurrences without adding
// any: the next one goes on.
//
// # Exclusions
//
// A command examines at most some ten thousand instants in each of its searches, excluded ones among them, and at least
// two thousand: see repeat.Search. What happens when a search ends among exclusions:
//
//	no occurrence is coming   the command tells only the instant up to which there is none, and the next one goes on
//	some are coming           there is no command until they are over
//	some were missed          they run late as if they were the last ones, at most as many as the policy lets run
//
// A rule without an occurrence for 100 years has ended.
//
// # Why not
//
//   - A cache of compiled rules: to compile one takes a few microseconds, and a commit takes a millisecond.
//   - The replicas compute instants themselves: nodes with other releases of the time zones would disagree.
package recur
