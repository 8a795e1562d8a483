// Package sim plays clusters in memory through simulated hours, days and weeks: replicas of shards, each a real
// shard.Shard on a real Raft, behind real routers, consumers and clock comparisons, in a synctest bubble where time
// passes as soon as nobody has anything to do. What is not real is what a cluster meets:
//
//	wire   the network: cut whole or one way, slow, lossy, requests that come late or twice, processes that hang
//	disk   logs, votes, snapshots: slow, hung, failing, and torn by the death of their process
//	clock  set and drifting, one for each node; compared over that network by the code that does so in production
//
// # A run
//
// Everything is drawn from a seed (Draw): how many nodes and shards, how slow network and disks are when they are
// well, how soon snapshots are due and how little log stays behind them, what will break and when (course), and what
// callers will do (the scripts and consumers of package load). The course is drawn before the load, so that the load
// is where things break: calls and due times lie close to strikes and mendings more often than not. Faults come in
// episodes of one to three that overlap; after each everything is mended and every shard must take a write. In the end
// everything comes to rest.
//
// Simulated time costs what happens in it. So a run has a pace: heartbeats of a second and faults of seconds within an
// hour; or heartbeats of minutes, faults of hours and tasks of days within weeks. Networks and disks take milliseconds
// at any pace, so that commits race with deaths, cancels and dues alike.
//
// # Judgement
//
// Calls and arrivals are recorded as in a siege of real processes, and judged by the same checks (chaos/check), with
// the limits of the pace. Beside them stands what only the inside can see: no attempt begins whose grant the machine
// has not applied, nor before its time by the clock of its node; any two replicas that have applied as many commands
// have the same state, in whatever life; what lies on a disk, applied anew from its newest snapshot on, comes to the
// state of its replica; no process ends but because of its disk; no key is taken for another call's.
//
// # What it leaves to others
//
// Gossip, membership, the control group (queues' policies are sent to nodes by hand here), HTTP, TLS, webhooks' own
// code, files and fsync: the siege plays those. So does a true pause: here a node can be kept from sending, receiving,
// writing and delivering (Host.Freeze), but its timers go on, and so it never wakes in the belief that no time has
// passed. What is said to a frozen node waits for it, as in a socket, and is there when it wakes.
//
// # Again
//
// The same seed draws the same cluster, course and load. How goroutines interleave, Raft's election timeouts, backoffs
// and the order of simultaneous timers are the runtime's choice, and differ from run to run, also on one thread. So a
// seed that fails is played again, a few times if need be: what a whole fault brings about usually comes again, a race
// of microseconds may not.
//
//	go test ./chaos/sim                                           a few short runs
//	BELFRY_SIM=long BELFRY_SIM_FOR=10m go test ./chaos/sim -v     one whole run after the other, from BELFRY_SIM_SEED on
//	BELFRY_SIM_SEED=7 BELFRY_SIM_TRACE=log go test ./chaos/sim    one, with what its nodes logged
//
// Four of the seeded mistakes (tag chaos, fsm/flaw) are caught within the runs that TestFlawsAreCaught states.
package sim
