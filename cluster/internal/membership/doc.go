// Package membership brings this node into its cluster and keeps it there.
//
//	Admission  whether the node takes part: not before other nodes have answered about its data folder, and never
//	           after one of them has contradicted it
//	Member     the way in: a new node forms or joins a cluster (package formation), a restarted one is checked first
//	           (package witness); then the node opens its replica of the control group
//	Registrar  the node's entry in the control group, and the entries of other nodes that ask this one
//
// A node that starts without a cluster:
//
//	formation → control group opens → Registrar keeps the entry → the caller opens the placed shards
//
// A node that starts again:
//
//	disks open → check by other nodes ─ agree ──→ control group opens → …
//	                                  └ refuse ─→ the node stands aside: it answers Witness and nothing else
//
// A new node that the cluster refuses, because it has no valid token, asks again until it is let in. It reads the file
// of its token each time. Refused has the reason.
//
// A removed node stands aside, too. It learns of its removal from the control group's log while it runs, from any node
// that it calls, or from the answers to its check. Its process goes on, and exits with 0 when it is stopped: a
// supervisor would start an ended process again and again, and /healthz, /readyz and each call tell what to do.
//
// While the disk is full, either way is tried again and again, and NoRoom has the reason.
package membership
