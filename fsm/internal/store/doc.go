// Package store keeps the tasks of one shard in memory: found by id, ordered by due time, counted and hashed.
//
//	Store     all tasks, and the Header of the shard: the last number, the log's time, the defaults
//	Task      one task to read, from Find
//	Edit      one task to write to, given only by Store.Change and Advance
//	Lane      the tasks for one receiver: ready tasks wait for a grant, firing tasks have one
//	Snapshot  the state of one moment, written while the store changes; Restore reads it
//
// The parts of a Store have one subject each:
//
//	memory     records, blobs and shared values of all tasks, and how they are decoded and hashed
//	Queues     rules, counts and sizes of queues and namespaces
//	Lanes      open lanes with their ready and firing tasks, and isolated paths
//	Schedules  schedules that want coming instants, and occurrences that have ended
//	Moves      copies of tasks that come, tasks that rest in slots on the move, and the Watch of tasks that go
//	Origins    webhook ids
//	events     the difference that a change makes, told to an observer
//
// Lanes, Schedules and Moves point back to their Store. Why not a narrow interface for each? They hand out tasks and
// change them, and each change passes the state hash and all counts.
//
// Change is the one way to write to a task:
//
//	lift   the task leaves the state hash, its queue's counts, its slot's counts
//	edit   the callback changes it
//	land   the changed task returns to all of them
//
// A transition therefore cannot forget the hash or a count. Package fsm decides on the changes; this package makes
// them.
//
// # One task
//
//	record    64 bytes: wheel node, state, id up to 24 bytes     every task
//	cold      a blob: the content that callers gave              every task
//	progress  64 bytes: attempts, fence, places in lists         from the moment it comes due
//	history   a blob: the last errors and attempts               once an attempt has ended
//	keys      a blob: the calls that can be repeated             beside the first, which is in cold
//
// Further memory and sharing:
//
//   - The index of ids takes 8 bytes a task, that of due times 18, or 36 for a task that is retried or dead, and that
//     of labels 5 to 12 for each label of a task: see dueIndex and labelIndex.
//   - No part of a task holds a pointer, so the garbage collector has nothing to scan: see package slab.
//   - Many tasks share targets and other equal parts (retries, labels, content type, expiry). The tables of shared
//     values are bounded, because a different target for each task would fill them.
//
// # Schedules
//
// A schedule is a task to this package: it has a record in the state STATE_REPEATING, content and a place in the wheel.
// Its Series lies in the cold blob and is written anew with each occurrence. It takes about 600 bytes.
//
// # Queues
//
// A queue in use is one object of about 800 bytes: its rule and its counts. Its counts are the same on every replica,
// and no part of the hash. Tasks that come due within a minute, an hour and a day are counted by their instants, in
// steps of four seconds.
//
// Why not the wheel's own slots, which would cost nothing? They are as coarse as hours, and wrong by each task that
// was rescheduled.
//
// A namespace counts its tasks, their bytes and its queues, for quotas. Each change of a task changes one counter more.
// The bytes are those of the blobs, and so differ a little from replica to replica.
//
// # Moves
//
// Copies of tasks in slots that are coming are tasks in the index, the wheel and the state hash, and in no list. Tasks
// in slots that are sealed leave the lanes' lists, but not the wheel. See moves.go, and watch.go for the source's side.
//
// # State hash
//
// Hash is a sum of one hash for each task, so that replicas can be compared at any time at no cost. It is computed
// from field values, never from marshalled bytes. Handles, the numbers of shared values and the order of lanes differ
// between replicas: they stay out of the hash, and never leave this package. A snapshot carries the hash, and Restore
// checks it.
package store

// FirstVersion is the version of the first build. Every build reads it.
const FirstVersion = 1
