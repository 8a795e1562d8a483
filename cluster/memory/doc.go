// Package memory watches how much of its memory a node has used up, and reports when the node may hold no more tasks.
//
//	the node is full              until
//	from 15/20 of the limit used  a twentieth less is used
//	from 17/20 of the limit held  a twentieth less is held
//	machine's memory is short     a quarter more than the machine's reserve is available
//
// A node may use as much memory as its limit allows, which is also the Go runtime's: see Limit. The limit covers more
// than tasks: garbage until it is collected, the memory of calls and answers, the copies that a snapshot needs while it
// is written. A collector that has no room left runs all the time, and a node without memory is killed. Package cluster
// decides how a full node behaves: in short, shards with a replica here take no more tasks, and continue with
// everything that lets tasks go.
//
// # Used and held
//
// Used memory is
//
//   - the heap as of the last garbage collection, without the tasks. Garbage does not count: it comes and goes.
//   - the present memory of the tasks, as the replicas count it, without free room in their slabs: a slab keeps its
//     size when tasks are done, and would keep the node full.
//   - the memory that the tasks may yet need when they come due and are attempted. It is not allocated before, and must
//     not be refused then.
//
// Free room in the slabs may not suit new tasks, if it is all for larger or smaller ones. So there is a second bound on
// all held memory, used or not.
//
// The machine's reserve is a twentieth of its memory, or half a gibibyte if that is less. The node is full while less
// is available, whichever process took the rest: swapping would follow, and then lateness.
//
// # Why not otherwise
//
// Not by the process's resident memory: it includes garbage, and memory that the runtime has not returned yet. Not by
// the collector's share of the processor: it shows the trouble too late. Not a number of tasks: they differ by a
// thousand times in size. And no spilling to disk: the state machine is memory, and the disk holds its log.
package memory
