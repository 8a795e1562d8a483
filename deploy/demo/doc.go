// Package demo is `belfry demo`: three real nodes, some thousands of tasks, the leader of the busiest shard killed in
// the middle with SIGKILL and brought back, and a verdict on what arrived.
//
// It judges from outside, as a user would: what counts is which schedules were acknowledged over HTTP and what its own
// receiver saw, by one clock, that of the machine. It is no benchmark (three nodes, the load and the receiver share
// the machine's cores) and no proof: the fault tests break more, and judge more.
package demo
