// Package capacity says how many machines a load needs, and what gives out first.
//
// It is arithmetic: a Workload and a Machine in, a Plan out; no clock, no cluster, nothing that runs. What one task,
// one entry or one heartbeat costs stands in costs.go, and only there, each with the command that measures it; when the
// code gets faster, that file changes and nothing else. Tests hold those costs that are bytes against the code.
//
// # How
//
// load says what the busiest node of so many nodes with so many shards must carry, in memory, processor time, network
// and disk, on an ordinary day and after a node or a zone is lost. Where leaders and replicas lie it asks the function
// that places them (package placement). Make takes the fewest nodes whose load fits, so a plan can be checked by
// asking the same function again, and more load never needs fewer nodes.
//
// A part of each resource is left free, see targets: a plan is for the busy hour of an ordinary day, and the rest is
// for what is not ordinary. Where it cannot know it assumes what costs more.
//
// Idle says what nodes say to each other when nothing happens: heartbeats above all.
//
// # Not here
//
// Nothing asks a running cluster: /metrics tells what it really takes. Costs in money: machines
// differ by more than formulas can say. Queues, labels and targets that are all different, payloads over 8 KiB and
// retries: they are the workload's to add (a task attempted twice is two fires).
//
// # Why not otherwise
//
// Not a simulation of queues: latencies at high load depend on the machine more than on anything that could be written
// down here, so loads are kept well below what was measured instead. Not a fit of one curve to a benchmark: it would
// say what, and not why. The parts can be measured one by one, and the plan can say which of them it is that limits.
package capacity
