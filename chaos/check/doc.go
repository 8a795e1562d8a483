// Package check holds the invariants against a history. Each check is a pure function of the record: what was asked and
// answered, what arrived, and what was read at the end. None of them talks to a cluster, so that a check is itself
// tested, with histories made by hand that it must pass and others that it must refuse.
//
// What a check may hold against the cluster is only what is certain. The calls that share one idempotency key are one
// operation: it happened if one of them was answered so, it did not happen if all of them are known to have failed, and
// otherwise it may happen at any instant after its start, be it after the run. A lost task that only such a doubt
// excuses is counted apart in the figures, so that a run that passes on doubts shows.
//
// Order between two operations on one task is certain where one ended before the other began, and where both answers
// carry revisions. Everything else is concurrent, and every order of it is allowed.
//
// A lease is an arrival too, which its consumer takes by an ack. What is held against leases beyond the other checks is
// in Leases: one live one a task, and answers of settles that say what happened.
//
// What a fault excuses is as little as is certain. A repeat needs a change of leader, by the numbers of the terms, at a
// time when what it repeats may not have been settled; a write that the shard took since proves that it was. A task
// whose shard no answer told has it from others on its slot, and the excuses of all shards where that is not known. A
// clock that was moved excuses what it showed, while it did (Clocks); and of a node alone, where a leap ahead of its
// clock ends leases, one repeat of what was under way.
//
// A finding is held, breached, or not exercised. Each check names the cases that put its invariant to the test, such as
// leaders killed with nothing else broken, and counts them; without one of each kind it has shown nothing. Invariant 10
// (repeating tasks) is not built: the service has no repeating tasks yet.
//
// Not linearizability, invariant 8: that needs a search, and a model of a task. It is in package linear.
package check
