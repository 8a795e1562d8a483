// Package fsm is the state machine of one shard: committed commands in, the same state everywhere out.
//
//	fsm/task    the vocabulary: limits, errors, attempts, lanes, the slot of an id
//	fsm/fsmpb   the messages: commands, results, tasks
//	fsm         the transitions: a table of commands, one applyX for each
//	fsm/store   the tasks in memory, their wheel, lanes, queues, hash and snapshots
//
// A Machine applies an entry of the log under one lock. Each command goes through these steps:
//
//	commandOf                 the table says whether a caller made the command, and whether it needs a task
//	recall                    a call with a remembered key is answered as it was then
//	holds                     a call whose condition does not hold is refused
//	applyX                    the transition, which writes through store.Change
//	remember, answer          the key is kept with the result; the leader's caller gets the task
//
// # Determinism
//
// Nothing here reads a clock, a random number or a Go map's order: applying the same entries gives the same state,
// byte for byte where it counts, whatever the process, the build or the snapshot it was restored from. "Now" is the
// instant in the entry. Policy arrives in the commands as plain numbers that the leader wrote.
//
// Every change of a task takes a number from one counter. It is the task's revision, its place among tasks of equal due
// time, and, when the change is a grant, its fence. A command that changes many tasks takes one number for each, so
// that no two changes share one: the order in the wheel is then total, and a replica restored from a snapshot pops
// equal dues in the order in which the others do.
//
// # Precedence
//
// A task's terms (timeout, attempts) are its own, else its queue's, else the policy's: task.Terms.Or resolves them. How
// long a tombstone stays is its queue's rule's to say, else the policy's, from the instant of the entry that ends the
// task.
//
// # Rules
//
// A queue's policy is the control group's, and rides in no command: a shard's leader puts the part that applying needs,
// the rule, into the log when it changes, so that an Advance stays a few bytes however many queues there are. A rule
// moves no task. A task waits where its queue and destination say, and an attempt that has begun ends as it began: it
// carries itself whether a consumer has it and when its lease ends.
//
// # Not here
//
// Raft, disks, the clock and the network are the shard's. How long a backoff is, how many attempts a lane may have in
// flight, and which consumer gets how many are the leader's, who writes them down as instants and numbers: replicas of
// different builds could otherwise differ.
package fsm
