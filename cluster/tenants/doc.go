// Package tenants is the API keys and namespaces of the cluster, as one node changes and knows them.
//
//	NewKey, RotateKey, RemoveKey, Enforce    a caller's change, at any node
//	PutNamespace, DeleteNamespace
//	Keys, Namespaces, Namespace, KeyLimits   the present ones, from memory
//	Key, KeysInForce, KeysVersion, KeyUsed   the source of package access
//	Await                                    waits until this node knows a version
//
// A change goes through the client of the control group (control.Replica) to its leader, which checks and commits it.
// The answering node returns once it knows the change itself, and once every other node that seems alive knows it, or
// after a second. So a revoked key is refused everywhere when its revocation is answered, but for nodes that do not
// answer.
//
// # Known keys
//
// Calls read a roster that is never changed, only replaced. The replacement follows each change of the control group's
// state. A lookup is one load of a pointer and one of a map.
//
//	the node                                        its roster is
//	runs                                            that of its replica of the control group
//	starts, and has not caught up with the group    that of its file, until the replica knows a later version
//	joins, and has not caught up                    unknown: package access refuses calls as unavailable
//
// Rules:
//
//   - A replica that starts begins with a state as old as its last snapshot: without the file it would let in keys that
//     were revoked since, or every caller. The replica counts as caught up when the state has the node's registration
//     for this start (control.Replica.IsCurrent).
//   - The file has the hashes of the keys, and not the keys. The node writes it after each change. A node that dies
//     between a change and the write of its file, and then starts without a quorum, goes by the version before.
//   - A file of another cluster is ignored, and so is one that cannot be read.
//
// # Last use
//
// KeyUsed compares two numbers in memory. Once a minute, and only if a key was used in an hour that the cluster does
// not know yet, the node reports such keys to the leader. A report that fails is repeated a minute later.
package tenants
