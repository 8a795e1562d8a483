// Package identity keeps the permanent facts about a data folder:
//
//	node id    minted at the first start
//	boot       how often the folder has been started
//	promise    the one promise that the node has given while a cluster was being formed
//	cluster    the cluster to which the node belongs
//	groups     the Raft groups that have lived in the folder
//	location   where the record was written
//
// The id belongs to the folder, not to the machine or its address, because Raft's safety rests on the folder. A voter
// with an emptied disk has forgotten its log and its vote, and must not count as the earlier voter. So an emptied
// folder is a new node. If only the folder of a group has vanished, the surviving identity reveals that (Opened returns
// true).
//
// # Copies
//
// The location is the device, inode and birth time of the record's file and of the folder.
//
//   - A folder counts as copied if it or the file differs from the location by inode or birth time, until the folder is
//     confirmed: there may be a newer one.
//   - Device numbers alone prove nothing, since they change over restarts of a machine: a loss of power everywhere,
//     together with the loss of one node, must not make every other folder look copied and so stop the cluster. They
//     decide only where the file system keeps no birth times.
//   - A renamed folder does not count as copied.
//   - The location does not reveal a copy of a whole disk's image.
//
// # Restore
//
// While a restore or a recovery fills a folder, a file RESTORING stands there, and no node opens the folder. The file
// goes when all others are on the disk. A killed restore leaves a folder that only another restore takes.
//
// # The file
//
// The record is one small JSON file, replaced whole: written aside, fsynced, renamed, the folder fsynced. Not a
// database: there is nothing to look up, and an operator can read it. A process that opens the folder holds a lock on
// it until Close, so that two processes cannot be one node.
package identity
