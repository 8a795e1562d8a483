// Package dispatch plans the work that a shard's leader may begin: how many due tasks of each lane the next log entry
// grants.
//
// # The planner
//
// A Planner is the leader's book of lanes. It is a pure data structure: no clock, no lock, no goroutine. The instant
// comes with each call, and a plan is a function of the calls before it.
//
//	the leader tells                                            the planner answers
//	--------------------------------------------------------    ------------------------------------------------
//	Begin     the lanes' loads after the Takeover
//	Policies  the queues' policies may have changed
//	Asked     a consumer asks for tasks of a lane, or none does
//	Lent      the owner of a limited queue has lent permits
//	Answered  the owner of a queue has answered an ask for its groups
//	Called    a user's command is in the entry being made
//	Hangs     an attempt has no answer after a second
//	Ended     an attempt's settle is in the entry being made
//	Plan      the entry is being made                           Isolations, Grants, Credits and Window for it
//	Applied   the entry's grants and the loads it changed       the grants to start and those to give back
//	Passed    an entry of users' commands alone has been        whether it is none of the planner's business
//	          applied, in place of Plan and Applied
//	Next                                                        the instant at which the next plan may grant more
//	Look      a consumer asks whether a task is there
//	Empty     how far the wheel has come                        the lanes whose consumers can be told that none is
//	Standing  the owner of a queue looks at its groups          where they stand in this shard
//
// An entry is made between two calls of Applied. A lane's changes from Ended and Plan count until then. Applied
// replaces them with the load that the machine reports.
//
// # Where a lane stands
//
// A lane without an attempt to begin costs an entry no work. Plan looks at woken lanes alone:
//
//	        an end, a load, a demand, a policy
//	                        |
//	                        v
//	asleep --instant--->  woken  <---attempts end--- held back
//	   ^                    |                            ^
//	   |                    | Plan looks at it           |
//	   +---- pause ---------+--- too many attempts ------+
//	                        |
//	       +----------------+----------------+
//	       | limited queue                   | queue without limits
//	       v                                 v
//	the queue's line ------ permits ----> Grants
//
// The conditions for a lane to begin attempts:
//
//   - A lane leaves all of these states when its queue is paused or its target is gone. A new policy wakes the lane.
//   - A pushed lane begins as many attempts as its throttle has room for (package throttle). A pulled lane begins the
//     tasks that consumers ask for (package desk).
//   - A lane of a limited queue stands in its queue's line with the number of attempts that it could begin. The lanes
//     of the line share, in turn, the permits that the queue's owner has lent (package lend).
//   - All shards of a node share a Crowd of attempts. From half of it on, only receivers whose last answer was a
//     success get more. A hundred thousand receivers that never answer would otherwise have a connection open each.
//   - The planner remembers the last 1024 idle lanes, those without tasks, for the sake of their throttles.
//
// An Advance grants tasks at the moment when they come due, up to Plan.Window in each lane and up to Plan.Attempts in
// all pushed lanes. The other due tasks leave the wheel too, and wait in their lanes. Credits name the lanes with
// another window: lanes with consumers, and lanes whose throttle has left its first window. The machine does not know
// of an open breaker or of the newest policy. A grant that meets either is given back, uncounted.
//
// # Groups and priorities
//
// The machine has a lane for each group of a receiver's tasks. The planner keeps them as the parts of the receiver's
// one lane, which has the throttle and the demands:
//
//		lane (receiver)     part (group)        group (queue)      inquiry (queue)
//		throttle, wish  ->  ready, first   ->   permits, want  ->  the Ask under way (package groups)
//
//	  - A part whose group the queue limits has as many tasks that may begin as its group has permits. In order, only the
//	    part with the group's earliest task has one.
//	  - A lane counts as ready only the tasks that may begin. So a group without a permit holds up nothing.
//	  - The parts of a lane get its grants by priority, then by turns: weighted ones in a fair queue, otherwise the
//	    earliest due time first. A limited queue has a line of lanes for each priority.
//	  - A group asks for permits only while its receiver takes tasks. A permit would otherwise wait for a consumer, while
//	    an earlier task comes elsewhere.
//	  - An Advance gives no grant for a group or for a priority other than the default, since the machine does not know
//	    whose turn it is. Such a task begins with the next entry.
//
// # Paths that fail
//
// A receiver is a destination: scheme, host and port. A path of it that fails must not hold the others. So the planner
// counts failures and attempts that hang for each path, and from isolateAfter in a row on it isolates the path:
//
//	lane of the destination ── 8 failures of a path ──> Isolate ──> lane of the path: a throttle and a window of its own
//	          ^                                                        |
//	          +────────────── no task left, no pause runs <────────────+
//
// Rules:
//
//   - The new lane begins with the failures of its path, and the lane of the destination is excused from them. A task
//     of the path that waits there moves when a grant meets it.
//   - An answer that refuses one task, such as 404 or 422, is no failure of the receiver.
//   - An attempt without an answer after a second no longer counts in the window of the destination. Up to the largest
//     window of such attempts may be under way. In the lane of a path they count: that path hangs. If the attempt fails
//     later and any path succeeded meanwhile, the failure is that of its path alone.
//   - While attempts of a lane fail or hang, its grants go in turn to the oldest fresh task, the newest one and the
//     oldest retried one. So a good task is not buried among those that the receiver fails on. A failed probe of an
//     open breaker does not count as an attempt, and the next probe gets another task.
//   - All breakers of one destination share the pace of probes. Pauses do not grow while any path succeeds. If 32
//     attempts in a row have failed on all paths, the receiver is down: each further attempt is a probe, and each
//     further failure opens the breaker of its lane.
//
// Most targets have an id in their paths, and such a path seldom fails eight times. Then the lane of the destination
// judges all of them together. A queue's own target and a broker have one path.
//
// # A backlog beside users
//
// Tasks that have come due at once, or waited for consumers, cost more to send, acknowledge and settle than to grant.
// Users' commands wait behind all of that work: in the proposer's intake, and at the processors of the leader, the
// followers and the callers. So the planner grants a backlog in bursts while users call:
//
//   - After each burst comes a rest of some thirty times the duration of an entry. Slow entries mean an overloaded
//     machine.
//   - Fires get at least one burst for each of the longest rests: a third of the machine, for as many shards as the
//     machine has by itself.
//   - No rest comes while users do not call. Consumers' settles are no users' calls.
//   - A lane where no task waits gets newly due tasks without a rest. Lanes with a backlog have their bursts in turn.
//
// # Namespaces
//
// A storm of one namespace leaves the others their part of each plan:
//
//   - Namespaces with woken lanes take turns by weight (Config.Weights), each of up to 32 tasks for a unit of weight.
//     The next one is the one with the fewest tasks granted (package admission). A namespace alone has the whole plan.
//   - A rest holds back the namespaces that had a quarter of the burst before it. The others get up to an eighth of a
//     burst in each entry meanwhile.
//   - A part of the Crowd is for queues and namespaces with few attempts under way. A place there is free again when
//     its attempt ends, even while the receivers of the others stay silent.
//   - If woken lanes filled a plan, limited queues come first in the next one.
//
// # Parts of a plan
//
//	shard/internal/throttle  how many attempts one receiver may have under way: an adaptive window and a circuit breaker
//	internal/lend            a queue's limits over all shards: its owner lends permits to the leaders
//	shard/internal/groups    the limits and the order of its groups
//	shard/dispatch/desk      the demands of consumers, and the tasks that are leased for them
//
// # Why not otherwise
//
//   - Not windows and permits in the log: they change with each attempt, and a wrong one costs a moment, not a task.
//   - Not a walk over the lanes after each entry: a hundred thousand lanes may be full.
//   - Not a few grants in each entry beside users: tasks that come to a consumer together are acknowledged together,
//     and one by one they cost the machine more than the rests save.
//   - Not a rest that follows how long users' commands wait in the intake and commit: on an overloaded machine they
//     wait before the intake, and the shard would find no delay.
//   - Not the lanes of groups as lanes of the planner: they would share one throttle and one demand, and each of a
//     hundred thousand groups would stand in every set.
//   - Not a lane for each path from the beginning: each would have a window of its own, and a receiver with a path for
//     each task would get all of them at once.
//   - Not a Grant that passes over tasks of some paths: it would walk over all of them for each grant.
//   - Not a random or a fair queueing of single lanes by weight: within a namespace, the planner looks at woken lanes
//     in the order in which they woke, and a lane with tasks left over goes to the end.
package dispatch
