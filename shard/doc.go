// Package shard runs one fsm.Machine on a Raft group (package raftgroup) and does the work of the shard's leader: it
// batches, ticks, fires and settles.
//
// # A leadership
//
// The group runs one leadership after the other (raftgroup.Group.Lead). Each leadership has its own set of workers,
// which end with it:
//
//	proposer  the only worker that proposes. Depth 1: the work that waited during the last commit is the next entry
//	ticker    sleeps until the wheel's next event, less the horizon, and asks the proposer for an Advance
//	firing    holds each grant until its instant, verifies the leadership, and starts the attempt
//	desk      holds consumers' demands and hands them the tasks leased for them (package dispatch/desk)
//	rules     makes the shard's rules follow the queues' policies
//	extender  computes the coming instants of schedules (package recur), many schedules in one entry
//	reclaim   gives back the tasks that the previous leader leased and that no node received
//	verifier  proves leadership for linearizable reads, once for all reads that wait
//	homing    gives the leadership to the node that placement prefers, once that node is healthy
//
// A leadership's first command is Takeover, after a comparison of the clock with a majority of the voters. Calls wait
// meanwhile. Grants come only from the answer to an entry that this very leadership proposed. A follower, or a leader
// that applies another leader's entry, gets no such answer. This rule, not a comparison of terms, keeps two nodes from
// firing one grant.
//
// # What may begin
//
//   - The number of attempts under way is not in the log. The leader keeps it in memory and proposes the grants and
//     credits that follow from it.
//   - Package dispatch plans the grants and credits. The proposer tells its planner the settles and grants of each
//     entry, and makes the next entry at the instant that the planner names.
//   - A task without a target, timeout or retry of its own takes them from its queue's policy, at each attempt and each
//     settle.
//   - A task whose window is closed gets its grant too. The leader then reads the task, and settles the grant as held:
//     the task waits in the wheel until the opening, and no attempt counts.
//
// Why not a planner that knows the windows? A closed queue would need lanes that sleep, and its tasks with windows of
// their own lanes of their own. A held task costs a grant and a settle for each closing, and then waits at no cost.
//
// # Work that rides
//
// An entry costs about as much whatever it holds, so work that can wait rides in an entry that other work makes:
//
//   - The settle of a successful attempt, and a consumer's call that only acknowledges, wait up to maxRide after the
//     last entry. They do not wait if a task may wait for the end of the attempt: a queue with limits or an order of
//     groups, an occurrence of a schedule, a lane where tasks are ready. An idle shard makes their entry at once.
//   - An entry takes an Advance along when the ticker would soon ask for one. While Advances are frequent, each goes
//     maxRide further ahead, up to maxHorizon in all.
//
// The costs: if the leader dies, its successor repeats the attempts whose settles wait. If tasks come due often, a
// cancel in the last 20 ms before the due instant, not 10, finds the task granted and answers stopped.
//
// # Namespaces
//
// Namespaces with calls or due tasks share the shard by weight, so that a storm of one costs its neighbours little:
//
//	calls wait in the intake     the namespace that has been served the least is next: see package admission
//	settles wait there, too      likewise, and calls have a quarter of the entry
//	the intake fills             a namespace may hold as much as it leaves free
//	several have work            for a second, entries take little longer than a small one takes on these disks (pace.go)
//	due tasks wait for grants    the planner's lanes take turns by namespace: see package dispatch
//
// A single namespace gets whole entries and plans, in the order of its calls and lanes.
//
// A call waits for the entry before its own, and a storm makes entries full. Hence the shorter ones, which cost the
// storm more than its neighbours.
//
// Why not a shorter entry for all? A storm of one namespace alone is fastest in full entries. Why not a wheel for each
// namespace? Popping a due task takes a microsecond, and the wheel's order is part of the replicated state.
//
// # When the leadership ends
//
//	a grant not yet started     is dropped; the next leader's Takeover grants it anew
//	a lease not yet handed over is handed to its consumer at its instant
//	a running attempt           runs to its end
//	windows, breakers, permits  are forgotten; the next leader learns them anew
//
// A lease belongs to no leadership, so the leader that granted it hands it over even after its end. If that leader's
// process died, the next leader reclaims the leases that were granted and not handed over:
//
//   - Each replica remembers the last few thousand leases (fsm.Machine.LiveLeases) with the boot number of the node
//     that each lease was for. Each node remembers the leases that reached it.
//   - The next leader asks all nodes. A lease whose node lives and did not receive it goes back to its lane, and that
//     node no longer accepts it: the old leader's process may have been stopped, and hands the lease over when it
//     wakes.
//   - A lease that was on its way to a consumer at the node that died runs out first. The consumer may have it, and a
//     lease that a consumer has is never cut short.
//
// Running attempts go on because the receiver may be acting on them already. Cutting the connection would not stop the
// repeat that another leader's Takeover causes, and would only make the first answer unreadable.
//
// A node that leads again repeats none of its own attempts. It keeps each attempt from its start until the log has its
// end (attempts.go). When its next Takeover has renewed the grants, and before any of them starts:
//
//	the attempt still runs here       it stands for the renewed grant, and its end settles that grant
//	its end was not committed         the end settles the renewed grant at once
//	the task has no grant any more    the end was committed after all, or another leader has moved the task on
//	the grant is of a later attempt   another leader has made it: the attempt starts
//
// So a failover to another node repeats at most the attempts that were running, and a leadership that ends and begins
// anew at the same node, as on a starved machine, repeats none.
//
// Why not settle the kept ends before the Takeover? Only its answer shows that no other leader has taken the task on,
// since the new leader may have applied no entry of that leader yet.
//
// A planned transfer first waits a while for a moment without running attempts. It then grants nothing, gives back
// uncounted the grants not yet started, and waits for the running attempts: up to Timing.Drain if the transfer is
// urgent, some milliseconds if the leadership goes home. The next leader repeats the attempts that run even then. An
// urgent transfer, as of a node that stops, takes the place of a way home. Grants that a Takeover renewed are not given
// back: their attempts may have begun elsewhere, and a cancel must not deny that.
//
// # Reads
//
// A linearizable read waits until this term's Takeover is applied, reads, and then proves that this node led at a time
// after the read (raftgroup.Group.Verify). Before an attempt starts, the leader checks that a majority was in touch
// within the last leader lease. A leader that was stopped and woken finds that none was, and proves its leadership
// first.
//
// # Slots that move
//
// Package fsm has the phases of a move, and package moves carries the tasks between the two leaders. The control group
// decides on the steps. The leaders do this besides:
//
//   - A call on a task whose slot is not open gets a *task.MovedError, mostly before it is in the log. The router
//     repeats the call, at the target once the control group has named it as the owner.
//   - An attempt under way when its slot is sealed runs to its end at the source's leader. Its settle is then forwarded
//     to the target, whose copy of the task has the same fence and lease. So it is neither repeated nor recorded twice,
//     and no move waits for it. If the settle is lost with the leader, the lease ends at the target.
//   - A grant not yet started is started at its instant, as its task has the grant at the target too. Once the task is
//     gone, it is given back there.
//
// Why not let attempts end before the seal? New ones begin meanwhile, and a receiver may take 15 seconds.
//
// # Cuts
//
// Cut makes a snapshot for a backup and opens it. The leader proves afterwards that it still led. So the snapshot lacks
// no command that any leader acknowledged before the cut.
//
// # Who should not lead
//
// Every replica records its state's hash at log indexes (checkpoint.go), for the cluster package to compare. A wrong
// hash, or the state of the node's disk, sets the replica's Standing:
//
//	Willing    leads
//	Reluctant  gives leaderships away, and asks for no votes while others may win them; leads if no other replica can
//	Barred     may be elected if no other replica can, but opens no leadership: its state is wrong
//
// Calls to a barred leader wait for the next leadership. A barred replica's vote and log count as ever.
//
// # Ambiguous answers
//
// task.ErrNotProposed means that no replica applies the command. An error after Raft took the entry (a failed append,
// shutdown, the caller's own deadline) is task.ErrUnknown.
//
// The callers of an entry that was under way when the leadership ended wait for some election timeouts. This replica
// follows the next leader meanwhile, and learns whether that leader has kept the entry: then they get its results, and
// otherwise a NotLeaderError, so that the router asks the next leader. Without a next leader they get ErrUnknown.
//
// # Left to others
//
//	fsm        the effect of a command
//	raftgroup  Raft and the disk
//	cluster    the placement of replicas, addresses, comparing clocks
//	delivery   HTTP to the receiver
//
// # Why not otherwise
//
//   - Not several entries in flight: measured slower, and the order within a shard would need care at every error.
//   - Not a timer for each entry: the commit of the last one is the timer. Where others use the processors or the disk,
//     an entry takes longer than the quickest ones of late, and calls wait for each other that much longer. With 64
//     callers, three nodes and two cores this saves a tenth of the processor time. A pause of half of each commit saves
//     as much, but calls would wait on an idle machine too.
//   - Not a queue of payloads to send: a grant is a name and an instant, and the attempt reads the payload when it
//     starts.
//   - Not raft's leader lease for reads or for safety: it is no lease, since a follower may elect another leader while
//     it runs.
package shard
