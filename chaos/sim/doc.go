// Package sim plays clusters in memory through simulated hours, days and weeks. The replicas are real: each is a
// shard.Shard on a real Raft, behind real routers, consumers and clock comparisons. A run lives in a synctest bubble,
// where time passes as soon as every goroutine waits. The surroundings of the cluster are simulated:
//
//	wire   the network: cut whole or one way, slow, lossy; requests arrive late or twice; processes hang
//	disk   logs, votes, snapshots: slow, hung, failing, and torn by the death of the process
//	clock  one for each node, set and drifting; production code compares the clocks over the simulated network
//
// # A run
//
// Draw and the course draw everything from a seed:
//
//   - the cluster: the number of nodes and shards, the log bytes that make a snapshot due, the entries kept after a
//     snapshot;
//   - the delays of network and disks while they are well;
//   - the course: what breaks and when;
//   - the load: what callers and consumers do (the scripts, schedules and consumers of package load);
//   - in two runs of three, operations on slots: splits, moves and balances.
//
// The course is drawn before the load, so that the load meets the faults: calls and due times lie close to strikes and
// mendings more often than not. Faults come in episodes of one to three that overlap. After each episode everything is
// mended and every shard must take a write. At the end the run waits until every task has come to rest.
//
// The cost of simulated time is the events in it. So a run has one of three paces:
//
//	pace    heartbeat    load and faults      longest delay of a task    longest fault
//	hour    1 s          20 to 60 minutes     3 minutes                  45 seconds
//	day     15 s         10 to 36 hours       6 hours                    15 minutes
//	weeks   4 minutes    1 to 3 weeks         4 days                     8 hours
//
// Networks and disks take milliseconds at any pace, so that commits race with deaths, cancels and due times alike.
//
// # Moves
//
// Config.Moving makes a run in which shards move between the nodes. Such a run has the pace of an hour, and more nodes
// than replicas. The nodes open, close and delete replicas by the code of production (cluster/replicas), and a real
// control.Mover takes the steps. Simulated are
//
//	decisions  the state of the control group: one register, whose entries are applied by the code of production
//	view       what a process knows of the decisions: it comes late, and not at all while the process reaches no other
//	reign      the leadership of the control group: it passes from process to process; a deposed leader goes on for a
//	           while. Changes of members arrive twice or seconds late, and their answers are lost
//	aims       new targets for the shards: one node for another, or other nodes altogether, 1 to 5 of them, also while
//	           the shard is on its way. Half of them come close to a strike or a mending
//
// Moves have random streams of their own. So a seed without moves means the same run as before.
//
// # Slots that move
//
// In two seeds of three operators split shards, and move and balance slots. A run has such operations or Config.Moving,
// never both. The code of production plans and drives the moves of slots (package control). Decisions and views are as
// in the moves of shards. Also simulated are
//
//	seat       a reign that drives moves of slots. It lasts for moments or seconds; a deposed leader may go on for
//	           seconds. The answers to some entries are lost
//	faulty     the way of a move's commands and batches: some arrive late, twice or never
//	aimed      faults that wait for a step of a move, and strike the leaders of its source and target
//
// They have random streams of their own, too.
//
// Scripts of the load about ids in these slots begin with each move, so that calls, due times and leases meet each of
// its steps.
//
// # Schedules
//
// A run has three to six schedules. Their intervals are a sixtieth to a quarter of the pace's longest delay; some have
// expressions in time zones. Some run undisturbed, so that the number of each occurrence follows from the rule. Callers
// start, skip and fill in occurrences of the others, pause and delete them, and change their rules. Some answers take
// so long that occurrences overlap. All schedules are paused before the end. The check of invariant 10 then accounts
// for each number.
//
// TestYearOfNights plays a whole year of daily tasks in the hour of the night in which clocks change.
//
// # Judgement
//
// A run records calls and arrivals as a siege of real processes does. The same checks (chaos/check) judge the record,
// with the limits of the pace. The simulation also checks promises that only the inside shows:
//
//   - An attempt begins only after the local state machine has applied its grant.
//   - An attempt begins only when its task is due, by the clock of its node or by true time.
//   - Any two replicas of a shard that have applied the same number of commands have the same state, across restarts
//     too.
//   - The newest snapshot on a disk and the log after it lead to the state of the replica on that disk.
//   - A process ends itself only because of its disk, or during an episode and the recovery after it.
//   - No call is refused because its key belongs to another call.
//   - Once a replica of a move's target has opened slots, the source serves no linearizable read of them.
//   - All moves of slots end, and each slot is open in the shard that the slot map names, and in no other.
//
// In a run with moves of shards also these, by the configurations in the logs on all disks:
//
//   - A leader makes a change of its group's members only in the membership and the term that it was decided for.
//   - A group never has fewer voters than before the move, or than its target has.
//   - A replica that gets a vote has on its disk what was applied a minute before. A freeze and a late call take
//     less than that together.
//   - A majority of the voters has each applied entry on its disk. This is looked at once a second.
//   - A node never opens the files of a replica that was removed, and deletes no replica that votes.
//   - After the last mending every move ends soon, and nodes without a replica of a shard have no files of it.
//
// # Left to the siege
//
// The siege plays gossip, membership, the Raft of the control group, HTTP, TLS, the webhook code, files and fsync. So
// it also plays the choice of targets, faulty replicas, and the return of a node that must learn from others that its
// replicas have moved (package witness): a simulated process knows the present decisions when it starts. Shards that
// move between nodes while their slots move are left to it, too. The simulation itself hands queue policies to the
// nodes. A true pause is left to the siege as well: Host.Freeze keeps a node from sending, receiving, writing and
// delivering, but the node's timers go on. So a frozen node never wakes in the belief that no time has passed. Messages
// to a frozen node wait for it, as in a socket, and are there when it wakes.
//
// # Playing a seed again
//
// The same seed draws the same cluster, course and load. The runtime decides how goroutines interleave, Raft's
// election timeouts, backoffs and the order of simultaneous timers. These differ from run to run, also on one thread.
// So play a seed that failed again, a few times if need be: the effect of a whole fault usually comes again, a race of
// microseconds may not.
//
//	go test ./chaos/sim                                           a few short runs
//	BELFRY_TESTS=long BELFRY_SIM_FOR=5m go test ./chaos/sim -v    whole runs for 5 minutes, from BELFRY_SIM_SEED on
//	BELFRY_SIM_SEED=7 BELFRY_SIM_TRACE=log go test ./chaos/sim    one run, with the log of its nodes in a file
//	BELFRY_SIM_MOVES=1                                            with any of these: the runs have moves
//
// The runs that TestFlawsAreCaught states catch thirteen of the seeded mistakes (tag chaos, fsm/flaw): four of them
// with moves of shards, and three with moves of slots.
package sim
