// Package formation brings a node without a cluster into one: it forms a cluster with others, or joins an existing one.
// It happens once in the life of a data folder.
//
//	promise    each node of a list promises to form the cluster (cluster id, list of nodes), durably and only once
//	bootstrap  the lowest id of the list asks all of it, and bootstraps once every single node has promised
//	void       a promise is void when a node of its list has promised something else or is in another cluster
//
// # Never two clusters of one list
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
// # Blocked lists
//
// Two lists may, in theory, block each other permanently (each lacks a promise that the other got). Nothing is lost
// then, for nothing was stored; the log says which folders to empty. A majority instead of all would not block, and
// would not be safe either: a node that did not promise may have promised elsewhere.
package formation
