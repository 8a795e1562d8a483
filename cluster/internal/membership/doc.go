// Package membership brings this node into its cluster, keeps it there, and remembers on disk what that needs.
//
//	Identity   the permanent facts of the data folder, in the file node.json
//	Disks      the open disks of the Raft groups in the folder, before the groups run
//	Directory  the nodes of the cluster, and the addresses where each may be; the file addresses.json
//	Admission  whether the node takes part: not before other nodes have answered about its data folder, and never
//	           after one of them has contradicted it
//	Member     the way in: a new node forms or joins a cluster, a restarted one is checked first (package witness);
//	           then the node opens its replica of the control group, and keeps its entry there right
//
// A node that starts without a cluster:
//
//	form or join → control group opens → KeepEntry → the caller opens the placed shards
//
// A node that starts again:
//
//	disks open → check by other nodes ─ agree ──→ control group opens → …
//	                                  └ refuse ─→ the node stands aside: it answers Witness and nothing else
//
// A new node that the cluster refuses, because it has no valid token, asks again until it is let in. It reads the file
// of its token each time. Refused has the reason. While the disk is full, either way is tried again and again, and
// NoRoom has the reason.
//
// A removed node stands aside, too. It learns of its removal from the control group's log while it runs, from any node
// that it calls, or from the answers to its check. Its process goes on, and exits with 0 when it is stopped: a
// supervisor would start an ended process again and again, and /healthz, /readyz and each call tell what to do.
//
// # Identity
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
// The location is the device, inode and birth time of the record's file and of the folder.
//
//   - A folder counts as copied if it or the file differs from the location by inode or birth time, until the folder is
//     confirmed: there may be a newer one. A renamed folder does not count as copied.
//   - Device numbers alone prove nothing, since they change over restarts of a machine: a loss of power everywhere,
//     together with the loss of one node, must not make every other folder look copied and so stop the cluster. They
//     decide only where the file system keeps no birth times.
//   - The location does not reveal a copy of a whole disk's image.
//
// The record is one small JSON file, replaced whole. Not a database: there is nothing to look up, and an operator can
// read it. A process that opens the folder holds a lock on it until Close, so that two processes cannot be one node.
//
// While a restore or a recovery fills a folder, a file RESTORING stands there, and no node opens the folder. The file
// goes when all others are on the disk. A killed restore leaves a folder that only another restore takes.
//
// # Disks
//
// All disks are open before any group runs, so that the node can compare them with other nodes' records. A replica that
// lacks entries in the node's own record of it counts as unreadable. A shard whose disk cannot be opened does not run,
// and the other shards do.
//
// # Directory
//
//	question                         sources, the best first
//	addresses of a node              where it was last reached, where it is registered (both also in the address book),
//	                                 gossip, --join
//	nodes of the cluster             the control group's state; while that may be old, also the address book and the
//	                                 promise by which the cluster was formed
//	may a node with this name enter  the control group's state; while a cluster is being formed, also gossip
//
// A wrong address costs a dial, because the answering node proves its id (see package peer). The address book lets
// starting nodes find each other while the control group has no leader yet and no gossip arrives. A goroutine of its
// own writes it after a change; callers never wait for the disk. A missing or unreadable file is an empty book, and a
// disk that takes no write delays the next one: neither stops the node.
//
// # Forming a cluster
//
// It happens once in the life of a data folder.
//
//	promise    each node of a list promises to form the cluster (cluster id, list of nodes), durably and only once
//	bootstrap  the lowest id of the list asks all of it, and bootstraps once every single node has promised
//	void       a promise is void when a node of its list has promised something else or is in another cluster
//
// Two nodes that bootstrap the same Raft group with different lists would make two clusters, and each would take itself
// for the only one. Gossip may show different lists to two nodes. These rules keep two lists from both bootstrapping:
//
//   - Two lists that share a node cannot both get its promise.
//   - Two lists that share no node become two clusters. An operator asked for both, since each list was complete.
//   - A node that has promised and waits asks the others of its list now and then. It may join another cluster only
//     once its promise is void, since the list will then never be complete.
//   - A node that was told to join (it expects no other nodes) never promises.
//
// Two lists may, in theory, block each other permanently (each lacks a promise that the other got). Nothing is lost
// then, for nothing was stored; the log says which folders to empty. A majority instead of all would not block, and
// would not be safe either: a node that did not promise may have promised elsewhere.
package membership
