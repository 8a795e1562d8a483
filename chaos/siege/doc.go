// Package siege lays siege to a cluster: load and faults at once, round after round. Each round is judged by itself.
//
//	head start   the load runs alone
//	faults       each striker strikes one kind of fault after the other, all strikers at once
//	heal         everything is mended, and every shard must take writes again
//	drain        due tasks come to rest
//	inspect      every task is read once more
//	verdict      the record is judged
//
// Siege, round, striker and plan mean:
//
//   - A siege has one stand, whose nodes and data stay from round to round.
//   - A round has its own seed, made of the siege's seed and the round's number, its own record and its own ids. The
//     memory of the harness is therefore bounded by a round, and a siege can count millions of tasks.
//   - Each striker has its own sequence of choices.
//   - A plan replaces the strikers if a test needs certain faults in a certain order.
//   - The nodes run on while a round is judged. Their deaths and log lines meanwhile count with the next round, and
//     after the last round with the siege.
//
// # Keys and namespaces
//
// With Config.Keys all calls need keys. Half of the load runs in a second namespace, with the same names of ids and
// queues as in the first one, and each namespace is judged by itself. A workload.Keeper rotates and revokes keys
// meanwhile, those of the load too. Once the round is drained, it tries keys once more in the whole cluster, so that
// each round puts invariant 15 to the test.
//
// # Drills
//
// A siege of ten minutes or more with all faults has drills: plans of faults that each come alone. Random faults hardly
// ever come alone, and some invariants can only be broken by a fault that does. Without such a fault the report calls
// these invariants not exercised.
//
//	round 1 of 8   silent gossip, forged gossip, leaders killed, a rolling restart, a leader's clock ahead,
//	               a failed sync, half-sent requests, a damaged file, a node without a majority, a start of all nodes
//	               with overdue tasks
//	round 2 of 8   forged gossip on another stand, if the siege's stand has a network
//	round 3 of 8   a rolling upgrade to a newer build and back, on another stand, while leaders are killed
//
// On a stand with two builds the newer one holds the command version (see package control), so that nodes can go back.
// Gossip can be forged only if the nodes have no keys, which is on loopback.
//
// # Attacks
//
// Attacks go on beside the load of each round, at a low rate: receipts of leases are forged, a schedule follows a
// calendar that is closed on each day (workload.Load.Forge), and some tasks have a label that a terminal would obey,
// which the command line prints once the round is at rest. The faults of group "attack" hold half-sent requests open,
// more than a node may open files, and damage files of a node before its start. Invariant 17 has them all.
//
// # Breaches beside the record
//
// Some breaches do not show in the record. A node died by itself and no fault explains the death. A log has a panic or
// a data race. An attempt arrived of a task that had been settled in a round before.
//
// # Replay
//
// The siege deletes the record of a round that held, unless Config.Keep is set. It keeps the record of a round that
// failed, with the nodes' logs, and the report names the seed and the round that make the same choices again. Timing
// is not repeated: each run pairs faults and calls differently, and a striker passes over a choice if another striker
// holds its nodes.
//
// Other packages decide which calls are made (workload), how things are broken (faults), on which stage (stand), and
// which invariants must hold (check).
package siege
