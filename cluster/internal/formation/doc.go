// Package formation brings a node without a cluster into one: it forms a cluster with others, or joins an existing one.
// It happens once in the life of a data folder.
//
//	promise    each node of a list promises to form the cluster (cluster id, list of nodes), durably and only once
//	bootstrap  the lowest id of the list asks all of it, and bootstraps once every single node has promised
//	void       a promise is void when a node of its list has promised something else or is in another cluster
//
// # Never two clusters of one list
//
// Bootstrapping a Raft group twice would make two clusters of one, each believing in itself. So the one thing that must
// never happen is that two different lists of nodes both bootstrap, and gossip may show two nodes different lists.
//
//   - Two lists that share a node cannot both get its promise.
//   - Two lists that share no node become two clusters because an operator asked for both: each was complete by itself.
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
