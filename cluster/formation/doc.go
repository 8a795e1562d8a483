// Package formation gets a node without a cluster into one: it forms one with others, or joins one that is there. It
// happens once in the life of a data folder.
//
// Bootstrapping a Raft group twice would make two clusters of one, each believing in itself, so the one thing that must
// never happen is that two different lists of nodes both bootstrap. Gossip may show two nodes different lists. So each
// node without a cluster gives, durably, one promise for (cluster id, list of nodes) and never a second; the lowest id
// of a list asks all of it, and only when every single one has promised does it bootstrap. Two lists that share a node
// cannot both get its promise. Two lists that share none are two clusters because an operator asked for both: each was
// complete by itself.
//
// Who has promised and waits asks the others of its list now and then. Once one of them has promised something else, or
// is in another cluster, this promise is void: the list will never be complete. Only then may the node join another
// cluster. A node that was told to join (it expects nobody) never promises.
//
// Two lists may, in theory, block each other for good (each lacks a promise that the other got). Nothing is lost then,
// for nothing was stored; the log says which folders to empty. A majority instead of all would not block, and would not
// be safe either: whoever did not promise may have promised elsewhere.
package formation
