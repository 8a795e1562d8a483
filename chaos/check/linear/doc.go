// Package linear checks invariant 8: the calls about one id are linearizable. Each can be given an instant between its
// start and its end such that, carried out one after the other at these instants on one copy of the task, they give the
// answers that were seen. The search is porcupine's (A. Athalye, https://github.com/anishathalye/porcupine, after
// Lowe's "Testing for Linearizability", 2017), one partition an id; what is here is the model of a task.
//
// # What the model holds
//
// A task is what a caller can see of it: state, revision, fire_at, whose payload it carries, attempts, what a cancel
// came to; and what decides later answers: the fence of its running attempt, who has it and until when, its webhook-id,
// and the keys that it remembers. Between calls it changes by itself (see drift): it comes due, is granted, settles,
// retries, dies, its lease ends, its grant is renewed. So a state of the search is a set of possible tasks, and what is
// not known of one is a bound until an answer shows it.
//
// It is held against everything that an answer says. Strictly:
//   - a revision is a number of the shard's one counter: every change takes a higher one. An answer of revision r puts
//     its call at number r, and calls with revisions have just one order. An arrival with fence f is a grant at number
//     f, before it arrived, under the task's webhook-id, with its payload and its fire_at;
//   - a schedule answers what it replaced, whether it made a task (201) or replaced one (200), its own fire_at and
//     payload;
//   - conditions: what was done under If-Match or If-None-Match had that revision or was absent, and 412 the reverse;
//   - a settle of an earlier occurrence's lease is told so, and changes nothing;
//   - a change is refused (409) once an attempt began and not before, with the state and the attempts that there are;
//   - a cancel answers cancelled only if none began, else stopped, or already_fired, and a repeat answers the same; no
//     attempt is granted after any of them;
//   - a read shows the last fire_at, the last payload (a finished task none), and attempts that never fall within an
//     occurrence (but by one, when a grant that was never begun is given back);
//   - nobody sees a task due before it is (but for the 50 ms that the contract says);
//   - an ack, nack, extend or release is taken under the fence of the lease that there is, and under no other, and a
//     lease that was seen does not end by itself before the instant that was told;
//   - a call with a key that the task remembers gets its answer again; two keys are remembered;
//   - 404 is of a task that was never made. Tombstones do not go within their ten minutes.
//
// A call of unknown outcome may happen at any later time, or never: each of its tries once, if its key is not
// remembered then. Porcupine could be given it as a call that never returns; but then it tries each of them at each
// place in turn, which takes time exponential in their number. Here they are something that the task may do by itself
// (see event): the set of possible states has those with and without, and those that used fewer of them stand for all
// others that look the same. A second trying of a call that had been answered is such an event too: it happens again if
// its key is forgotten.
//
// # What it does not hold
//
// How late something is (invariant 6), arrivals without a grant's number or with that of another one (7), what single
// replicas show (11), when a task with an expiry expires, replay and drop of dead letters, lists, and other ids: that
// the numbers of two tasks of one shard are in order is not looked at. How often a task may be attempted is not known
// here, so both retrying and dead are believed after a failure. A delay counts from receipt, which is somewhere between
// the call's start and its end. The clocks of nodes are believed within Limits.Skew and what faults made of them, while
// they did (check.Clocks). In a history longer than ten minutes any tombstone may have gone. Whether a key is still
// remembered is judged by how many calls may have come since, not by which did; and a call that was answered but
// changed nothing is believed to be remembered, too.
//
// It leaves to others: recording (history) and all that must be judged over many ids (check).
package linear
