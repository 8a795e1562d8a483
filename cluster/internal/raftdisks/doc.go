// Package raftdisks holds the open disks of the Raft groups in one data folder: the control group's and the shards'.
//
//	at the start      OpenControl, then OpenShards: all disks are open before any group runs, so that the node can
//	                  compare them with other nodes' records (package witness)
//	a group opens     Get gives the group its disk, and creates the disk of a new group
//	opening fails     Close lets the disk be opened again
//	the node ends     CloseAll closes the disks that no group has taken over
//
// A replica that lacks entries in the node's own record of it counts as unreadable. A shard whose disk cannot be opened
// does not run, and the other shards do.
package raftdisks
