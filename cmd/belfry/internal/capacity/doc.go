// Package capacity computes how many machines a load needs, and which resource runs out first.
//
//	Workload, Machine    the input: a load in its busiest hour, and one node's machine
//	Costs                what one task, one entry or one heartbeat costs, as measured
//	Make                 the smallest Plan for the input
//	Plan                 the nodes and shards, the needs of the busiest node, warnings, commands
//	Idle                 the traffic between nodes without any calls: heartbeats above all
//
// The package is arithmetic: it has no clock, no cluster and no goroutine. The costs are only in costs.go, each with
// the command that measures it. When the code gets faster, only that file changes. Tests compare the costs in bytes
// with the code.
//
// # How
//
//   - load.go computes the load of the busiest node for a number of nodes and of shards: memory, processor time,
//     network and disk, on an ordinary day and after a node or a zone is lost.
//   - The function that places replicas and leaders in a cluster (package placement) also places them here.
//   - Make takes the fewest nodes whose load fits. A plan can therefore be checked with the same function, and more
//     load never needs fewer nodes.
//   - A part of each resource is left free, see targets: a plan is for the busy hour of an ordinary day, and the rest
//     is for extraordinary ones.
//   - Where the package cannot know a figure, it assumes the costlier one.
//
// # Not here
//
//   - No function asks a running cluster: /metrics has its real figures.
//   - Costs in money: the prices of machines differ by more than formulas can express.
//   - Queues and targets that are all different, payloads over 8 KiB, and retries. The caller adds them to the
//     workload (a task attempted twice is two fires).
//
// # Why not otherwise
//
//   - Why not simulate queues: latencies at high load depend on the machine more than on any figure in this package.
//     Instead, loads are kept well below the measured limits.
//   - Why not fit one curve to a benchmark: the curve would give a result without its reason. The parts can be
//     measured one by one, and the plan can name the part that limits.
package capacity
