// Package linear checks invariant 8: the calls about one id are linearizable. There must be an instant for each call,
// between its start and its end, such that one copy of the task, given the calls one after the other at these instants,
// gives the answers that were seen.
//
//	record of one id                         in the search
//	answered call, grant that arrived        step: has exactly one place in the order
//	try of unknown outcome                   event: happens once, at any place after its start, or never
//	change of the task by itself             drift: happens between steps
//	all that is known of the task            set of possible states
//
// The search is porcupine's (A. Athalye, https://github.com/anishathalye/porcupine, after Lowe's "Testing for
// Linearizability", 2017), with one partition for each id. This package holds the model of a task.
//
// # What the model holds
//
// A modelled task has the fields that a caller can see: state, revision, fire_at, the operation whose payload it
// carries, attempts, and the outcome of a cancel. It also has the fields that decide later answers: the fence of its
// running attempt, the holder of that attempt and the end of its lease, its webhook-id, and the keys that it remembers.
//
// Between calls a task changes by itself (see drift). It comes due, is granted, settles, retries and dies, its lease
// ends, and its grant is renewed. So a state of the search is a set of possible tasks. A field that is not known has a
// bound until an answer shows its value.
//
// The model is compared with every field of an answer:
//   - A revision is a number of the shard's one counter, and every change takes a higher one. An answer of revision r
//     puts its call at number r, so calls with revisions have only one order. An arrival with fence f is a grant at
//     number f, before the arrival, under the task's webhook-id, with its payload and its fire_at.
//   - A schedule answers the state that it replaced, whether it made a task (201) or replaced one (200), and its own
//     fire_at and payload.
//   - A call under If-Match or If-None-Match succeeded only if the task had that revision or was absent. It was
//     answered 412 only in the opposite case.
//   - A settle of an earlier occurrence's lease is answered "replaced", and changes nothing.
//   - A change is refused (409) if and only if an attempt has begun, with the task's state and attempts.
//   - A cancel answers cancelled only if no attempt has begun, else stopped or already_fired. A repeated cancel gets
//     the same answer. No attempt is granted after any of them.
//   - A read shows the last fire_at, and the last payload, or none if the task is delivered or cancelled. Its attempts
//     never fall within an occurrence, except by one when a grant is given back whose attempt never began, or when a
//     push failed that may have been the probe of a broken receiver.
//   - No read shows a task as due before it is, except within the 50 ms that the contract allows.
//   - The service takes an ack, nack, extend or release only under the fence of the current lease. A lease that arrived
//     does not end by itself before its announced end.
//   - A call with a key that the task remembers gets its first answer again. A task remembers two keys.
//   - 404 means that the task was never made: tombstones stay for ten minutes.
//
// A call of unknown outcome may happen at any later time, or never. Each of its tries may happen once, unless the task
// remembers the key then. A retry of an answered call is open in the same way: it happens again if the task forgot the
// key.
//
// Why not give porcupine such calls as calls that never return: it would try each of them at each place in turn, in
// time exponential in their number. Here a task may perform them by itself as events. The set of possible states holds
// states with and without each event. A state that used fewer events stands for all others that look the same.
//
// # Not in the model
//
//   - Other checks look at lateness (invariant 6), arrivals without a fence or with that of another arrival (7), and
//     the reads of single replicas (11).
//   - The model does not decide when a task with an expiry expires. It has no replay or drop of dead letters and no
//     lists.
//   - The numbers of two tasks of one shard are not compared.
//   - The limit of a task's attempts is not known here, so a task may be retrying or dead after any failure.
//   - A delay counts from the receipt of the call, at some instant between the call's start and its end.
//   - Nodes' clocks may be off by Limits.Skew, and by the offsets that faults caused while they lasted (check.Clocks).
//   - Any tombstone may be gone in a history longer than ten minutes.
//   - A key counts as forgotten by the number of calls that may have come since, not by which calls came. A call that
//     was answered but changed nothing also counts as remembered.
//
// Package history records the run. Package check judges the invariants over many ids.
package linear
