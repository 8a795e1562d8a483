// Package headroom watches how much room a node has left for data: on its disk, and in its memory.
//
//	Amount   a number of bytes, or a percentage of a total, as text ("1.5GiB", "5%")
//	Reserve  the part of a disk that must stay free
//	Disk     reports when less than the reserve is free
//	Limit    the bound on a node's memory
//	Memory   reports when the node may hold no more tasks
//
// Package cluster decides how a node without room behaves.
//
// # Disk
//
//	free room                                the disk
//	from less than the reserve on            is Low
//	a quarter more than the reserve          is not low any more
//	less than half of the reserve, at start  is too full for the node to start: see Reserve.Starts
//
// A node whose disk is full cannot write its log, and a write that fails ends the process: see raftgroup/logstore. So
// the node stops growing before. The reserve is by default a gibibyte, or a twentieth of the disk if that is less.
// Free room is the file system's figure for a process without privileges, by statfs(2). A disk that does not answer, or
// a system without that call, is not low.
//
// # Memory
//
//	the node is full              until
//	from 15/20 of the limit used  a twentieth less is used
//	from 17/20 of the limit held  a twentieth less is held
//	machine's memory is short     a quarter more than the machine's reserve is available
//
// A node may use as much memory as its limit allows, which is also the Go runtime's: see Limit. The limit covers more
// than tasks: garbage until it is collected, the memory of calls and answers, the copies that a snapshot needs while it
// is written. A collector that has no room left runs all the time, and a node without memory is killed. Used memory is
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
//   - Not a quota of our own on the disk: other programs' files fill it as well. Not by the sizes of our files:
//     segments are allocated ahead, snapshots come and go.
//   - Not by the process's resident memory: it includes garbage, and memory that the runtime has not returned yet. Not
//     by the collector's share of the processor: it shows the trouble too late. Not a number of tasks: they differ by a
//     thousand times in size. And no spilling to disk: the state machine is memory, and the disk holds its log.
package headroom
