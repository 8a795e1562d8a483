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
//   - the load: what callers and consumers do (the scripts and consumers of package load).
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
//
// # Left to the siege
//
// The siege plays gossip, membership, the control group, HTTP, TLS, the webhook code, files and fsync. The simulation
// itself hands queue policies to the nodes. A true pause is left to the siege too: Host.Freeze keeps a node from
// sending, receiving, writing and delivering, but the node's timers go on. So a frozen node never wakes in the belief
// that no time has passed. Messages to a frozen node wait for it, as in a socket, and are there when it wakes.
//
// # Playing a seed again
//
// The same seed draws the same cluster, course and load. The runtime decides how goroutines interleave, Raft's
// election timeouts, backoffs and the order of simultaneous timers. These differ from run to run, also on one thread.
// So play a seed that failed again, a few times if need be: the effect of a whole fault usually comes again, a race of
// microseconds may not.
//
//	go test ./chaos/sim                                           a few short runs
//	BELFRY_SIM=long BELFRY_SIM_FOR=5m go test ./chaos/sim -v      whole runs for 5 minutes, from BELFRY_SIM_SEED on
//	BELFRY_SIM_SEED=7 BELFRY_SIM_TRACE=log go test ./chaos/sim    one run, with the log of its nodes in a file
//
// The runs that TestFlawsAreCaught states catch four of the seeded mistakes (tag chaos, fsm/flaw).
package sim
