// Package raftgroup runs this node's replica of one hashicorp/raft group. The shards and the control group use it. It
// handles entries as bytes; their meaning belongs to the Machine.
//
//	     Propose, Commit, Verify, Transfer, HandOver, ChangeMembers, Snapshot, Capture
//	                                 │
//	┌─────────────── Group ──────────▼─────────────────────────────┐
//	│ futures    one wait for every answer of Raft                 │
//	│ watch      one leadership after the other ───────────────────┼──▶ Lead(func(ctx))
//	│ tuning     timeouts of a leader, a follower, a head start    │
//	│ candidacy  the first election after a start                  │
//	│ replay     entries that the previous process had applied     │
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
//	Propose   appends an entry, and stops waiting when the caller's context ends
//	Commit    appends an entry for an owner that proposes alone, one entry after the other. It tries again while Raft
//	          refuses, waits for every entry that Raft took, and ends the process when the leader makes no progress
//
// Rules for both:
//
//   - ErrNotLeader and ErrRefused prove that no log has seen the entry. After any other error but ErrReplaced a log may
//     have it.
//   - Raft forgets the calls in its channels when it shuts down, and their callers would wait for ever. So no call
//     begins once the group stops, and the stop waits for the calls under way (futures.go).
//
// # A leadership
//
//   - The function given to Lead runs for each leadership, one at a time. Its context ends when Raft reports that the
//     leadership was lost, or lost and won again. If the function returns before that and Raft still leads, it runs
//     again a second later.
//   - Raft's main loop blocks on its channel of such reports. One goroutine only empties this channel.
//   - A leader's heartbeats leave at common moments, since they are most of the cost of an idle cluster (metronome.go).
//     Raft sends heartbeats by itself at a tenth of its heartbeat timeout, so a leader's is longer than its followers'.
//
// # A start
//
// Raft by itself learns from the next leader which entries are committed, and waits one to two heartbeat timeouts for a
// leader before it becomes a candidate. After a restart of all replicas three waits would follow each other: for the
// timeout, for the election, and for the log. Three things shorten them:
//
//   - The replica applies its log up to Config.Applied at once (replay.go). Raft later gives the same entries to the
//     applier, which passes over them. Until then there is no snapshot: Raft would file the state under an older entry.
//   - The replica asks the voters for pre-votes again and again, and becomes a candidate as soon as a majority grants
//     them (candidacy.go).
//   - The preferred node does so at once, the others after HeadStart. Without a preferred node the voters take turns.
//
// # Giving a leadership away
//
//	Transfer   for an owner that proposes alone, and proposes nothing meanwhile
//	HandOver   for an owner with many callers of Propose: they wait, those under way are answered first
//
// An entry that is under way when the leadership ends may be kept or replaced by the next leader. This replica follows
// that leader and sees which (fate.go), so Commit returns a LostError, and its Outcome waits for the answer:
//
//	the entry is applied here                the machine's answer
//	another one is applied in its place      ErrReplaced: no replica will apply the entry
//	neither, for example without a leader    unknown
//
// # Proof of leadership
//
// VerifyLeader of hashicorp/raft counts the answer to a heartbeat that was sent before the call, and the answers of
// nodes without a vote. So it proves nothing about the time after the call. The transport records, for each voter, the
// send time of the newest answered request of the term (contacts.go):
//
//	Verify    makes Raft send heartbeats, and waits until a majority has answered heartbeats sent after the call
//	InTouch   reads the same records and sends nothing
//
// # Snapshots
//
//   - Raft counts entries, each of which may be a few bytes or a megabyte. So the owner gets a token when the log has
//     grown by enough bytes (Grown), and takes the snapshot (Snapshot). The log kept behind it is limited in bytes,
//     too.
//   - A snapshot is written in pieces that are each synced, with rests between them. One sync of tens of megabytes
//     would delay the next log entry of every group on the node.
//   - Capture takes a snapshot and opens its file, for a reader outside the group such as a backup.
//   - An owner with a small state lets Raft count entries (SnapshotConfig.Entries).
//
// # Copies
//
// A replica that lacks more entries than the log has gets a snapshot: a copy. All copies of a node leave through one
// Meter of package copies, which limits those to replicas without a vote. A slow copy needs two things more
// (copying.go):
//
//   - The log behind its snapshot stays until the replica has those entries, as long as the log has not grown by four
//     times the state. A copy that is overtaken nevertheless is sent again without a limit. So every copy ends.
//   - It stops when the leadership ends, when the receiver is no member any more, and when either process stops. Raft
//     would send it, and read it, to the end.
//
// # What ends the process
//
// The group calls Config.Fatal once and stops itself at the same time. The causes are:
//
//   - the disk failed,
//   - an entry cannot be applied,
//   - the leader's log contradicts the entries that this replica has applied,
//   - a leader applied no entry for Timing.Stuck.
//
// # Membership
//
//	Members         the newest configuration that this replica knows
//	Membership      the same on a leader, with its term
//	ChangeMembers   makes one change, and waits until it is committed
//
// Rules of a change:
//
//   - Raft does not report the index of a configuration (its Index is always 0). So a change is bound to the membership
//     that its caller has seen: the term and all members. A request of a caller that has been replaced, or that arrives
//     late, changes nothing.
//   - A member without a vote becomes a voter only when it lacks at most MostLag entries. hashicorp/raft would let it
//     vote at once, and the next entry might wait for the whole log to reach it.
//   - A member is removed, or loses its vote, only while a majority of the other voters is in touch.
//   - The leader neither removes nor demotes itself: it gives its leadership away first.
//
// # Why not otherwise
//
//   - Not one goroutine that owns all of Raft's calls: each call has its own deadline.
//   - Not Raft's heartbeat fast path: see package install.
//   - Not a shorter timeout for the first election: a replica that asks before the others are open waits longer for its
//     second election.
//   - Not raft's leader lease as a proof: it is no lease, since a follower may elect another leader while it runs.
//   - Not an interface over Raft with a second implementation: simulations exchange the Transport and the Storage.
package raftgroup
