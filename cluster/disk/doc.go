// Package disk watches the free room on the disk of a node's data, and reports when it is too little.
//
//	free room                                the disk
//	from less than the reserve on            is Low
//	a quarter more than the reserve          is not low any more
//	less than half of the reserve, at start  is too full for the node to start: see Reserve.Starts
//
// A node whose disk is full cannot write its log, and a write that fails ends the process: see raftgroup/logstore. So
// the node stops growing before. The reserve is by default a gibibyte, or a twentieth of the disk if that is less.
// Package cluster decides how a node with a low disk behaves.
//
// Free room is the file system's figure for a process without privileges, by statfs(2). A disk that does not answer, or
// a system without that call, is not low.
//
// # Why not otherwise
//
// Not a quota of our own: other programs' files fill a disk as well. Not by the sizes of our files: segments are
// allocated ahead, snapshots come and go.
package disk
