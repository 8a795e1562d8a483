// Package memory watches how much of its memory a node has used up, and says when it may hold no more tasks.
//
// A node may use as much memory as its limit says, which is also the Go runtime's: see Limit. Everything that is not a
// task must fit into it too: garbage until it is collected, what calls and answers are made of, the copies that a
// snapshot needs while it is written. A collector that has no room left runs all the time, and a node without memory
// is killed. So the node is full from three quarters of the limit on, and stays so until it uses a twentieth less.
// What it does then is the cluster package's to decide: in short, shards with a replica here take no more tasks, and
// everything that lets tasks go, goes on.
//
// # What counts as used
//
//   - What the heap held when the collector was last through, beside the tasks. Garbage does not count: it comes and
//     goes.
//   - What the tasks hold now, as the replicas count it, without what is free for others in their slabs: a slab keeps
//     its size when tasks are done, and would keep the node full.
//   - What the tasks may yet come to hold when they come due and are attempted. That part of their memory is not taken
//     before, and it must not be refused when it is.
//
// Free room in the slabs can be of no use for what comes, if it is all larger or smaller. So there is a second bound,
// seventeen twentieths of the limit, on all that is held, used or not.
//
// And there is the machine: where less than a twentieth of its memory is left to anybody (or half a gibibyte, if that
// is less), the node is full, too, whoever took the rest. What follows there is swapping, and then lateness.
//
// # Why not otherwise
//
// Not by the process's resident memory: it includes garbage, and what the runtime has not given back yet. Not by the
// collector's share of the processor: that tells when it is too late. Not a number of tasks: they differ by a thousand
// times in size. And no spilling to disk: the state machine is memory, and the disk holds its log.
package memory
