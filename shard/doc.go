// Package shard runs one Raft group over one fsm.Machine, and does what its leader has to do: batch, tick, fire,
// settle.
//
// # A leadership
//
// Raft tells of a leadership through a channel that its main loop blocks on; a reader that does nothing else (watch)
// keeps it empty. Each leadership gets its own set of workers, which die with it:
//
//	proposer  the one place that proposes. Depth 1: what waited while the last entry was committing is the next one
//	ticker    sleeps until the wheel's next event, less the horizon, and asks the proposer for an Advance
//	firing    holds each grant to its instant, looks once more, and starts it
//	desk      where consumers' demands wait, and are handed the tasks leased for them (dispatch/desk)
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
// How many attempts may be under way is not in the log: it is the leader's to know, in memory, and grants and credits
// are what comes of it. The proposer's book holds for each lane what waits and what is under way as of the last entry;
// what its receiver can take (package throttle: a window that adapts, a circuit breaker); and its queue's gates:
// paused, or limited to the permits that the queue's owner lends (package lend), which its lanes share in turn. An
// Advance grants by itself only up to the first window of a lane. What it grants against a gate that the machine does
// not know of, a breaker or a policy a moment old, is given back before it starts, uncounted.
//
// The book's cost is that of what changes. A lane that can begin nothing is looked at again after an end, an instant,
// a demand, a permit or a policy, and not before; so a hundred thousand receivers that are down cost an entry nothing.
// They could still have a connection open each: from Policy.Strangers attempts on, only receivers whose last answer was
// a success get more.
//
// # A backlog beside users
//
// What has come due at once, or waited for consumers, costs more to send, acknowledge and settle than to grant, and
// all of that is work that a user's command then waits behind: some of it in the proposer's queue, the rest at
// processors, here, at the followers and in whoever calls. So while users call, a backlog is granted in bursts, and
// after each comes a rest of some thirty times what an entry takes at that time (pacing.go): the longer entries take,
// the shorter of time is the machine. A burst for each of the longest rests is what fires get at least: for as many
// shards as a machine has by itself, a third of what it can do. Nothing rests when users do not call, and settles of
// consumers are no call of a user's. A lane where nothing waits gets what comes due as ever, and lanes with a backlog
// have their bursts in turn.
//
// What a task does not say itself (target, timeout, retry) its queue says, looked up at each attempt and each settle.
//
// # When the leadership ends
//
// Grants not yet started are dropped: the next leader's Takeover grants them anew. Leases are the exception: they
// belong to no leadership, so what was leased by then is still handed to its consumer at its instant. When the leader's
// process died, some had been granted and not handed over. So each replica remembers the last few thousand leases
// (fsm.Machine.Given) with the run of the node that they were for, each node remembers which came to it, and the next
// leader asks (reclaim): what its node lives and did not get goes back to its lane, and that node does not take it any
// more. Only what was on its way to consumers at the node that died runs out first: they may have it, and a lease that
// a consumer has is never cut short. Windows, breakers and permits are forgotten: the next leader finds out for itself.
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
// after the read. VerifyLeader of hashicorp/raft alone does not prove that: it counts the answer to a heartbeat that
// was sent before it was called. So the transport notes, for each voter, when the newest answered request of this
// term was sent, and VerifyLeader only hurries the heartbeats. The same notes say whether a majority was in touch
// within the last leader lease: a leader that was stopped and woken finds that it was not, and asks before it starts
// an attempt.
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
// task.ErrNotProposed is said only of what no log has seen. An error after Raft took the entry (leadership lost, a
// failed append, shutdown, the caller's own deadline) is task.ErrUnknown.
//
// # Left to others
//
// What a command does: fsm. The disk: logstore. Where replicas live, addresses, comparing clocks: cluster. HTTP to the
// receiver: delivery.
//
// # Why not otherwise
//
// Not several entries in flight: measured slower, and the order within a shard would need care at every error. Not a
// timer that lingers for more commands: the commit of the last entry is the timer. Not a queue of payloads to send: a
// grant is a name and an instant, and the payload is read when the attempt starts. Not raft's leader lease for reads
// or for safety: it is no lease (a follower may elect another while it runs). Not windows and permits in the log: they
// change with each attempt, and a wrong one costs a moment, not a task. Not a walk over the lanes after each entry. Not
// a few grants in each entry beside users: tasks that come to a consumer together are acknowledged together, and one by
// one they cost the machine more than the pace saves. Not a pace that follows how long users' commands wait
// in the queue and commit: where the machine is swamped they wait before it, and the shard finds that all is well.
package shard
