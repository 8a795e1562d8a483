// Package identity keeps what a data folder must never forget: the node's id, minted at the first start; how often it
// has started; the one promise it has given while a cluster was being formed; the cluster it belongs to; and which
// Raft groups have lived in it.
//
// The id belongs to the folder, not to the machine or its address, because Raft's safety does: a voter whose disk was
// emptied has forgotten its log and its vote, and must not pass for the one it was. So an emptied folder is a new
// node, and a group's folder that vanished beside a surviving identity is noticed (Opened says true).
//
// All of it is one small JSON file, replaced whole: written aside, fsynced, renamed, the folder fsynced. Not a
// database: there is nothing to look up, and an operator can read it. Whoever has opened the folder holds a lock on it
// until Close, so that two processes cannot be one node.
package identity
