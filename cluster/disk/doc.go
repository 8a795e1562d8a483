// Package disk watches how much room is left where a node keeps its data, and says when it is too little.
//
// A node whose disk is full cannot write its log, and a write that fails ends the process: see raftgroup/logstore. So
// it stops growing before: from less than a reserve on (Reserve; by default a gibibyte, or a twentieth of the disk if
// that is less) the disk is Low, and stays so until a quarter more than the reserve is free. And a node that is started
// with less than half of the reserve does not begin: see Reserve.Starts. What a node does while its disk is low is the
// cluster package's to decide.
//
// What is free is what the file system says is free for a process without privileges, as statfs(2) tells it. A disk
// that does not answer, or a system without that call, is not low.
//
// Not a quota of our own: other programs' files fill a disk as well. Not by the sizes of our files: segments are
// allocated ahead, snapshots come and go.
package disk
