// Package chaos breaks a cluster of real processes under load, and judges the outcome from outside.
//
// Each part of a run is a package of its own. The record of the run joins them:
//
//	history   the record: calls, answers, arrivals and faults, each with its time
//	workload  calls through random nodes, with timeouts and safe repeats; the receiver; and API keys, which are made,
//	          rotated and revoked during a round, and tried at each node
//	netlab    a network that can be cut, delayed and garbled
//	lossyfs   disks that lose unsynced writes, fail and fill up
//	stand     the nodes under test, with the networks and disks that this machine allows
//	stranger  forged gossip about the members, for nodes without a gossip key
//	faults    the kinds of faults, and the leaders of the shards meanwhile
//	check     the invariants, each a pure function of the history; linear checks each id with porcupine
//	verdict   the outcome of one round, with all known facts about its faults
//	siege     rounds of load and faults by a seed, the resources that the nodes take meanwhile, and the report
//
// There are two forms of a run:
//
//   - `go run ./chaos/cmd/siege --for 1h --faults all --seed 7` is the long form: random faults, several at once, round
//     after round.
//   - The scenarios of this package are the short form. A scenario is a siege of one round with a fixed plan, so that
//     `go test` sees the same faults in the same order each time. The changes of the cluster's shape are scenarios:
//     nodes, replicas and shards that become more or fewer, nodes and zones that are lost, and copies at a held rate.
//
// Why not:
//
//   - Nodes inside the test: only the death of a process resembles the death of a machine.
//   - A look inside the nodes: the harness would share a node's wrong belief, so it uses the public interface alone.
//   - Simulated time and networks: production does not run on them. Package sim uses them, and finds other mistakes in
//     less time.
//
// The harness is itself checked: each check against good and bad histories made by hand, and the whole harness against
// a fake service that is sound or has one bug of each kind.
//
// The tests of delivery/e2e show the effects of receivers, consumers and nodes on each other. README.md lists the bugs
// that were found so far, each with the command that finds it again.
//
// `go test ./chaos` plays one short scenario, of killed nodes, and judges no times. Environment variables change that:
//
//	BELFRY_TESTS=real         plays each scenario once and briefly
//	BELFRY_TESTS=real,long    plays scenarios for minutes with all shards
//	BELFRY_TESTS=real,timed   judges times, too, on a machine with no other work; with long, by the promised limits
//	BELFRY_SAMPLE=text        chooses the mistakes that the short form seeds
//	BELFRY_CHAOS_SEED=n       makes other choices
//	BELFRY_CHAOS_TASKS=n      is the number of tasks that the long form moves to a new node
//	BELFRY_CHAOS_KEEP=folder  keeps histories, node logs and data in that folder
package chaos
