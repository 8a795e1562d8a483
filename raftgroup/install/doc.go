// Package install keeps hashicorp/raft from installing a snapshot of entries that a replica has already.
//
// # The fault
//
// A leader sends a snapshot when it believes that a follower lacks entries that are gone from its own log. It may be
// wrong by the time when the snapshot arrives: it sent the snapshot twice because an answer came late, or a paused
// process finds both in its sockets. Raft has two rules for such a snapshot (Ongaro and Ousterhout, figure 13, steps 6
// and 7). hashicorp/raft v1.7.3 breaks both (hashicorp/raft issue 697):
//
//	the follower's log      Raft                                hashicorp/raft
//	---------------------   ---------------------------------   --------------------------------------------
//	has the last entry      keeps the entries behind it         restores the older state, empties the log
//	contradicts it          discards the whole log              keeps the log, refuses every later entry
//
// In the first case, hashicorp/raft empties a log only if it is monotonic, entries that it has acknowledged included.
// It still remembers where that log had ended. The leader's next entry fits behind that end and is written behind a
// gap. The process panics when the entry is committed, and cannot start afterwards. In the second case, the leader
// sends the snapshot again without end.
//
// # The Gate
//
// A Gate stands before Raft and judges the requests:
//
//   - It answers a snapshot of entries that the replica has, as Raft would after installing it. The leader then goes on
//     behind that snapshot, where the replica's own log may not reach any more. The Gate therefore removes applied
//     entries from requests, which Raft would refuse for ever otherwise.
//   - It cuts off a log that contradicts a snapshot and ends the process, which starts again with the rest of the log.
//   - It judges a snapshot after Raft has carried out all earlier requests, because the second snapshot often comes
//     right behind the first.
//   - It limits the commit index of a request to the entries that the request compares, another rule of that figure.
//     hashicorp/raft commits up to the end of the log, which may hold entries of a former leader.
//   - It ends the process with ErrUndone when a leader's log or snapshot has another entry where this replica has
//     applied one. Committed entries never change, so a disk went back in time, here or on a majority of the nodes.
//     Raft would cut the entries off its log, and go on with a state that no other replica has.
//   - It remembers the first commit index since the start that covers all acknowledged entries: see Told.
//   - It passes all other requests.
//
// # Why not otherwise
//
//   - Not in the snapshot store: Raft's own snapshots look the same there.
//   - Not at the sender: it cannot know which requests still lie in the sockets between.
package install
