// Package witness detects a node whose data folder is older than the node's acknowledgements: the folder was put back
// from a copy, or its disk went back in time. With the vote of such a node a majority could elect a leader that lacks
// acknowledged tasks, and undo these tasks on the nodes that have them.
//
// Every node keeps a Table, a small file, of its observations of all other nodes:
//
//	run        the newest start that a node claimed: how many starts its folder has had, a random nonce, its address
//	position   for each group, the greatest (term, index) that the node was seen to hold on its disk
//	own        for each group, the node's own term and the last entry that it applied
//
// # Positions, and why a healthy node is never older than one
//
// A position (T, i, e) of node P in a group says that P, in term T, held on its disk the entry of index i that was
// written in term e. Another node notes it from
//
//	P's successful answer to entries, or a snapshot, of the leader of term T that reach to that entry
//	P's own entries, or a snapshot, as the leader of term T, that reach to it
//	any other answer or request that carries P's term T: i is 0. Not pre-votes: their term is on no disk
//
// The table keeps the greatest position by (T, i). At its start P is older than a position if its current term is
// before T, or is T and its log, with its snapshot, has no entry (i, e). A healthy P is never older, for hashicorp/raft
// v1.7.3:
//
//   - setCurrentTerm writes a term to the stable store before it is in any answer or request, and terms only rise.
//   - A follower answers entries after StoreLogs, and a snapshot after its sink is closed; a leader stores entries
//     before it sends them. Here both return when the data is on disk (packages logstore, journal, snapshots).
//   - Within term T a follower cuts its log only where it differs from the leader of T. The entries that it
//     acknowledged to that leader are equal to the leader's own log, and a leader only appends. So P holds (i, e) as
//     long as its term is T. The leader itself cuts nothing in the term that it leads.
//   - A candidate of T may lose and be cut in T, so its last index is not noted.
//   - Compaction, and the installation of a snapshot, leave (i, e) or a snapshot that stands for it: a snapshot older
//     than the log is not installed (package install).
//
// Conversely, a state of P that lacks an entry which P has acknowledged is always older than a position. Let (T, i, e)
// be the greatest position. A state of P from before any position of T has a term before T, or is of term T. In the
// second case it lacks (i, e) unless its log equals that of T's leader up to i (the log matching property), and then no
// acknowledged entry is missing. A state of a later term than T was written after P had acknowledged the last entry to
// T's leader.
//
// The entry's own term is needed: a state of term T may have a longer log than i that ends in entries of a deposed
// leader, which T's leader was about to cut. A comparison of indexes between terms, on the other hand, would refuse
// healthy nodes: a leader of a later term may cut entries that only a minority had acknowledged.
//
// A node's own applied entries are committed and never cut, so the term and the index of the own entry are each
// compared by themselves. A node's last index in a term would not do, since the tail may be cut.
//
// # Replicas that move
//
// A node may lose its replica of a group and get another one later, which begins empty. Each replica has a number: the
// revision of the shard's record at which it joined (0 for the first placement).
//
//	a position   has the number that the observer knew when it began to observe the replica
//	a node       knows the numbers of its replicas, and of the last replica of each group that has left its folder
//
// So:
//
//   - A position of an earlier replica than the node's is no evidence against the node. A position of a later one is:
//     the folder is older than that replica.
//   - An observer drops the position of a replica that was removed (Place). One that does not know of the removal yet
//     reports the old number.
//   - A copy of a folder from before the node got a replica lacks the control group's entry that placed the replica, so
//     the positions of the control group give it away.
//
// # Long absence
//
// While a node was away, its shards may have moved, and the voters in its folder may be gone. So an answer also has the
// standing of the starting node: its place in the cluster by the answering node's replica of the control group. A
// standing counts if that replica has applied at least as much as the folder's own. The newest one decides:
//
//   - A removed node stands aside.
//   - A replica that the cluster has removed meanwhile is neither asked about nor opened. Each life of a replica begins
//     at a revision of its own, so a record of a later revision without that life shows that it is over, also if the
//     record is not the newest.
//   - Of each other group, a majority of its present holders has to answer, not of the voters in the folder.
//   - The nodes of the address book, of gossip and of --join are asked besides the voters. They are not waited for
//     beyond the first moment.
//
// # Why not otherwise
//
// Not with a sync for each acknowledgement: the file is written at most five times a second. So evidence of the last
// 200 ms before a loss of power may be missing on a node; see docs/reference/limits.md. Not with a new file for each
// write, which costs two syncs. Not as a log of changes, which would have to be cut: a table of three nodes has a
// kilobyte. Not in the groups' own logs: a node asks before it opens any of them, when all others may be down or asking
// too. Not from gossip, which any sender may forge.
package witness
