// Package demo runs the demonstration of `belfry demo`: a cluster loses its leader without losing a task.
//
//	1  start three real nodes
//	2  schedule some thousands of tasks
//	3  kill the leader of the busiest shard with SIGKILL, and measure the failover
//	4  start the node again
//	5  print a verdict on the deliveries
//
// The demo judges from outside, as a user would. It counts the schedules that were acknowledged over HTTP and the
// webhooks at its own receiver. Both sides use the clock of this machine.
//
// The demo is no benchmark, because three nodes, the load and the receiver share the machine's cores. It is no proof
// either: the fault tests break and check more.
package demo
