// Package install keeps hashicorp/raft from installing a snapshot of what a replica has already.
//
// A leader sends a snapshot when it believes that a follower lacks entries that are gone from its own log. It may be
// wrong by the time that the snapshot arrives: it sent it twice because an answer came late, or a paused process finds
// both in its sockets. Raft says that a follower whose log has the snapshot's last entry keeps what follows it, and
// one whose log contradicts the snapshot discards all of it (Ongaro and Ousterhout, figure 13, steps 6 and 7).
// hashicorp/raft v1.7.3 does neither. It restores the older state, and empties a log that is monotonic, entries that
// it has acknowledged included; but it remembers where that log had ended. The leader's next entry fits behind that
// end, is written behind a gap, and the process panics when it is committed; after that it cannot start. A log that
// contradicts the snapshot makes the follower refuse every entry after it, and the snapshot is sent again without end.
// (hashicorp/raft issue 697.)
//
// So a Gate stands before Raft. It answers a snapshot of what the replica has as Raft would after installing it. The
// leader then goes on behind that snapshot, where the replica's own log may not reach any more: entries that were
// applied are left out of requests, which Raft would refuse for ever otherwise. A log that contradicts a snapshot is
// cut off there, and the process ends, and starts again with the rest of the log. All other requests pass. The Gate
// judges a snapshot when Raft has carried out all requests before it: the second snapshot often comes right behind the
// first.
//
// One more rule of that figure is kept here: a request commits no entry beyond those that it compares. hashicorp/raft
// commits up to the end of the log, which may hold entries of a leader that was.
//
// A leader whose log or snapshot has another entry where this replica has applied one ends the process with
// ErrUndone: committed entries never change, so a disk went back in time, here or on a majority of the nodes. Raft
// would cut the entries off its log, and go on with a state that no other replica has.
//
// # Why not otherwise
//
// Not in the snapshot store, where Raft's own snapshots look the same. Not at the sender, which cannot know which
// requests still lie in the sockets between.
package install
