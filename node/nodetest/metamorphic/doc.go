// Package metamorphic plays one random history of calls on clusters of different shapes, and compares the answers. A
// caller must not see how many shards a cluster has, nor that slots move between them: one shard, twelve, and three
// that split and exchange slots during the history give the same answers, deliver the same attempts at the same times,
// and end in the same state. So the test needs no model of a right answer. It holds only tests.
//
// # A history
//
// A seed draws the history in advance: puts, cancels, touches, patches, fires, batches and repeated keys; leases and
// their settles; schedules with their occurrences; rules of queues, pauses and dead letters; bulk operations; lists by
// id and by due time; leases of a queue with a limit. The calls go to the nodes in turn. Simulated time passes between
// them (package nodetest). A call begins half a second after a full second. Tasks and occurrences come due at the
// beginning of a second. So a call never races with an attempt, and a move of slots may delay either by a third of a
// second.
//
// # What may differ
//
// The contract leaves open some parts of an answer. The comparison replaces or leaves out these, and no others:
//
//   - revisions, fences and the numbers of shards and nodes; a revision that a call names is one that it has read, and
//     the fences of a task must rise
//   - receipts and cursors; the webhook-id of an occurrence is replaced by the task's id and a count
//   - fractions of a second
//   - oldest_overdue of a queue, which looks at the heads of the shards' lines only
//   - the order of tasks with one due time, of the tasks of a lease, and of attempts within one second
//   - the tasks of a limited queue that are leased at once; their number is compared
//   - pages: a list is compared whole
//
// A list by id goes by slots, which are the same at any number of shards, so its order is compared.
//
// # Why not
//
//   - A model that computes each answer: the state machine would stand there twice. Package fsm has such a model for
//     one shard; here one shard is the model of many.
//   - Faults: package chaos/sim judges answers under faults, which may differ from run to run.
package metamorphic
