// Package identity keeps what a data folder must never forget: the node's id, minted at the first start; how often it
// has started; the one promise it has given while a cluster was being formed; the cluster it belongs to; and which
// Raft groups have lived in it.
//
// The id belongs to the folder, not to the machine or its address, because Raft's safety does: a voter whose disk was
// emptied has forgotten its log and its vote, and must not pass for the one it was. So an emptied folder is a new
// node, and a group's folder that vanished beside a surviving identity is noticed (Opened says true).
//
// The record also says where it was written: device, inode and birth time of its own file and of the folder. A folder
// whose file or folder is another one by inode or birth time counts as copied until it is confirmed: there may be a
// newer one. Device numbers alone prove nothing, since they change over restarts of a machine: a loss of power
// everywhere, together with the loss of one node, must not make every other folder look copied and so stop the cluster.
// They decide only where the file system keeps no birth times. A folder that was renamed is the same one. An image of a
// whole disk is a copy that cannot be told by this.
//
// All of it is one small JSON file, replaced whole: written aside, fsynced, renamed, the folder fsynced. Not a
// database: there is nothing to look up, and an operator can read it. Whoever has opened the folder holds a lock on it
// until Close, so that two processes cannot be one node.
package identity
