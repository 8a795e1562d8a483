// Package shard runs one fsm.Machine on a Raft group (package raftgroup), and does its leader's work: batch, tick,
// fire, settle.
//
// # A leadership
//
// The group runs one leadership after the other (raftgroup.Group.Lead). Each has its own set of workers, which end with
// it:
//
//	proposer  the one place that proposes. Depth 1: what waited while the last entry was committing is the next one
//	ticker    sleeps until the wheel's next event, less the horizon, and asks the proposer for an Advance
//	firing    holds each grant to its instant, looks once more, and starts it
//	desk      where consumers' demands wait, and are handed the tasks leased for them (package dispatch/desk)
//	rules     has the shard's rules follow the queues' policies
//	reclaim   gives back what the leader before had leased and nobody got
//	verifier  proves leadership for linearizable reads, once for all readers that came in time
//	homing    gives the leadership to the node that placement prefers, when that node is well
//
// Its first command is Takeover, after the clock has been compared with a majority of the voters. Calls wait meanwhile.
// Grants come only from the answer to an entry that this very leadership proposed: a follower, or a leader that applies
// what another proposed, has nobody to hand them to. That, not a look at the term, keeps two nodes from firing one
// grant.
//
// # What may begin
//
// The number of attempts under way is not in the log: the leader keeps it in memory, and proposes the grants and
// credits that follow from it. Package dispatch plans them. The proposer tells its planner what each entry settles and
// grants, and makes the next entry at the instant that the planner names.
//
// A task's target, timeout and retry come from its queue's policy if the task has none, at each attempt and each
// settle.
//
// # When the leadership ends
//
// Grants not yet started are dropped: the next leader's Takeover grants them anew. Leases are the exception: they
// belong to no leadership, so what was leased by then is still handed to its consumer at its instant. When the leader's
// process died, some had been granted and not handed over. So each replica remembers the last few thousand leases
// (fsm.Machine.LiveLeases) with the run of the node that they were for, each node remembers which came to it, and the
// next leader asks (reclaim): what its node lives and did not get goes back to its lane, and that node does not take it
// any more. Only what was on its way to consumers at the node that died runs out first: they may have it, and a lease
// that a consumer has is never cut short. Windows, breakers and permits are forgotten: the next leader finds out for
// itself.
//
// Attempts that run go on to their end, because the receiver may be acting on them already: cutting the connection
// would not stop the repeat that Takeover causes, only make the first one unreadable. Should this node lead again when
// one succeeds, that success still settles the task, under whatever fence. So the repeats of a failover are at most the
// attempts that were running. A planned transfer first waits a while for a moment without running attempts, then holds
// new ones back, gives those not started back uncounted, and drains for some milliseconds. What runs even then is
// repeated. What a Takeover renewed is not given back: it may have begun elsewhere, and a cancel must not deny that.
//
// # Reads
//
// A linearizable read waits for this term's Takeover to be applied, reads, and then proves that this node led at a time
// after the read (raftgroup.Group.Verify). Before it starts an attempt the leader looks whether a majority was in touch
// within the last leader lease: a leader that was stopped and woken finds that it was not, and proves its leadership
// first.
//
// # Who should not lead
//
// Every replica notes its state's hash at log indexes (checkpoint.go), for the cluster package to compare. That, or the
// state of a node's disk, sets the replica's Standing. One that is Reluctant gives leaderships away and asks for no
// votes while others may win them; when nobody else can, it leads like any other. One that is Barred, because its state
// is wrong, may be elected then, but opens no leadership: calls wait for the next. Its vote and its log count as ever.
//
// # What is ambiguous
//
// task.ErrNotProposed means that no log has seen the command. An error after Raft took the entry (leadership lost, a
// failed append, shutdown, the caller's own deadline) is task.ErrUnknown.
//
// # Left to others
//
// The effect of a command: fsm. Raft and the disk: raftgroup. The placement of replicas, addresses, comparing clocks:
// cluster. HTTP to the receiver: delivery.
//
// # Why not otherwise
//
//   - Not several entries in flight: measured slower, and the order within a shard would need care at every error.
//   - Not a timer that lingers for more commands: the commit of the last entry is the timer.
//   - Not a queue of payloads to send: a grant is a name and an instant, and the payload is read when the attempt
//     starts.
//   - Not raft's leader lease for reads or for safety: it is no lease, since a follower may elect another leader while
//     it runs.
package shard
