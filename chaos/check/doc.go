// Package check judges a recorded history against the service's invariants. Each check is a pure function of the
// record.
//
//	invariant  check        promise
//	1          Lost         nothing acknowledged is lost
//	2          Early        nothing is early
//	3          Cancelled    cancelled means never
//	4          OneBody      repeats carry one webhook-id and one body
//	5          Repeats      repeats are bounded by the attempts in flight at a failover
//	6          Lateness     a failover keeps its lateness budget
//	7          Fences       fences rise
//	8          (linear)     the calls about one id are linearizable
//	9          Undead       nothing rises from the dead
//	10         Occurrences  repeating tasks neither skip nor double
//	11         Replicas     replicas are equal
//	12         Leases       a task has one live lease at most
//	13         Recovery     every shard takes writes soon after a mending
//	13b        FirstFire    overdue tasks fire soon after a start of all nodes
//	13e        Hints        bad gossip alone refuses no calls for long
//	13f        Majority     a majority of the replicas is enough
//	14         Honest       errors are honest
//	15         Apart        keys and namespaces keep callers apart
//	16         Groups       groups keep their order, one task at a time
//	17         Attacks      an attack gains nothing and stops nothing
//	18         Followed     a follow-up comes with the end of its task, once
//
// Apart and Attacks judge the whole history. All other checks judge the part of one namespace, where ids are those of
// its tasks: the same id in another namespace is another task. An invariant holds if it was put to the test in each
// namespace.
//
// Rules of all checks:
//   - The record holds the calls with their answers, the arrivals, and the reads at the end of the run. No check talks
//     to a cluster. So the checks are tested themselves, with handmade histories that they must pass and others that
//     they must refuse.
//   - A check judges by certain facts only. The calls that share one idempotency key are one operation. The operation
//     happened if one of its answers reports success. It did not happen if all of its calls certainly failed. Otherwise
//     it may happen at any instant after its start, even after the run.
//   - The figures count a missing task apart if only an operation of unknown outcome may have ended it. So they show
//     how much of a pass rests on doubts.
//   - The order of two operations on one task is certain if one ended before the other began, or if both answers carry
//     revisions. All other operations are concurrent, and may have happened in any order.
//   - A lease is an arrival too, which its consumer accepts by an ack. Leases holds two more promises against leases: a
//     task has one live lease at most, and the answer to a settle says what happened.
//   - A fault excuses only its certain effects. A repeat is excused by a change of leader, by the terms' numbers, while
//     the outcome of the repeated attempt may have been uncommitted. A later write to the shard proves that the outcome
//     was committed. A process that leads again, in the next term and without another leader between, repeats none of
//     its attempts, so that such a change of leader excuses nothing.
//   - The shard of a task may appear in no answer. Then the owners of the task's slot give the shard, or another task
//     of the same slot does. If that fails too, the changes of leader of all shards excuse the task. A slot may move to
//     another shard: then the changes of leader of both excuse its tasks.
//   - A moved clock excuses the errors of its own offset, while it was moved (see Clocks). A leap ahead of a lone
//     node's clock ends leases, and so excuses one repeat of each attempt that was under way.
//   - A finding is held, breached or not exercised. Each check names and counts the cases that put its
//     invariant to the test, such as leaders killed with nothing else broken. A check that lacks a kind of case has
//     shown nothing.
//
// Why not check linearizability (invariant 8) here: it needs a search and a model of a task. Package linear has both.
package check
