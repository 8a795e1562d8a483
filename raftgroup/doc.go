// Package raftgroup runs this node's replica of one hashicorp/raft group. The shards and the control group are built on
// it. It knows entries, not what they say: that is the Machine's.
//
//	         Propose, Commit, Verify, Transfer, AddNonvoter, Snapshot
//	                                 │
//	┌─────────────── Group ──────────▼─────────────────────────────┐
//	│ futures    one wait for every answer of Raft                 │
//	│ watch      one leadership after the other ───────────────────┼──▶ Lead(func(ctx))
//	│ tuning     timeouts of a leader, a follower, a head start    │
//	│ standstill nothing applied for Timing.Stuck ─────────────────┼──▶ Config.Fatal
//	│                                                              │
//	│ raft.Raft ───── applier ─────────────────────────────────────┼──▶ Machine
//	│  │      └ Storage: raftdisk (logstore, journal, snapshots),  │
//	│  │        under a logcache                                   │
//	│ transport  contacts, metronome, retries                      │
//	│  │                                                           │
//	│ install    keeps out what Raft would take wrongly            │
//	└──┼───────────────────────────────────────────────────────────┘
//	   ▼
//	Transport to the other nodes
//
// # Calling Raft
//
//   - Propose appends an entry and leaves it when the caller's context ends. Commit is for an owner that proposes
//     alone, one entry after the other: it tries again while Raft refuses, waits for every entry that Raft took, and
//     ends the process when the leader gets nowhere.
//   - ErrNotLeader and ErrRefused say that no log has seen the entry. After any other error a log may have it.
//   - Raft forgets the calls in its channels when it shuts down, and their callers would wait for ever. So no call
//     begins once the group stops, and the stop waits for the calls under way (futures.go).
//
// # A leadership
//
//   - The function given to Lead runs for each leadership, one at a time. Its context ends when Raft says that the
//     leadership was lost, or lost and won again. If it returns before that and Raft leads on, it is run again a second
//     later.
//   - Raft's main loop blocks on its channel of such news. One goroutine does nothing but empty it.
//   - A leader runs with a longer heartbeat timeout than its followers: by a tenth of it Raft sends heartbeats, which
//     is most of what an idle cluster costs.
//
// # Proof of leadership
//
// VerifyLeader of hashicorp/raft counts the answer to a heartbeat that was sent before the call, and so proves nothing
// about the time after it. The transport notes for each voter when the newest answered request of the term was sent
// (contacts.go). Verify has heartbeats sent until a majority has answered ones that were sent after the call. InTouch
// reads the same notes without sending anything.
//
// # Snapshots
//
//   - Raft counts entries; an entry may be a few bytes or a megabyte. So the owner is told when enough bytes of log
//     have piled up (Grown), and takes the snapshot (Snapshot). How much log stays behind it is bounded in bytes, too.
//   - A snapshot is written in pieces that are each brought to the disk, with rests between them: one sync of tens of
//     megabytes holds up the next log entry of every group on the node.
//   - An owner with a small state lets Raft count entries (SnapshotConfig.Entries).
//
// # What ends the process
//
// Config.Fatal is called once: when the disk failed, an entry cannot be applied, the leader's log contradicts what this
// replica has applied, or a leader applies nothing for Timing.Stuck. The group stops by itself beside it.
//
// # Membership
//
// Members is the newest configuration. A change of it is one call that waits until it is committed, and may be
// repeated. Raft allows one change at a time. It does not tell the index of a configuration (its Index is always 0), so
// a change cannot be bound to the configuration that it was decided by.
//
// # Why not otherwise
//
// Not one goroutine that owns all of Raft's calls: each call has its own deadline. Not Raft's heartbeat fast path: see
// package install. Not raft's leader lease as a proof: it is no lease, a follower may elect another leader while it
// runs. Not an interface over Raft with a second implementation: simulations exchange the Transport and the Storage.
package raftgroup
