// Package task is the vocabulary of tasks: the nouns, limits and errors that every layer of a node shares.
//
//	Slot, Slots             the slot that an id hashes to; each shard holds a range of slots
//	CheckSpec, CheckQueue   the limits of the contract, in Max… and Default… constants; a *FieldError names the field
//	Attempt, Outcome        one delivery: the request, and its end
//	Lane, LaneLoad, Grant   the line of tasks before one receiver, and the permission to begin one of its tasks
//	LeaseRequest, Leased    a consumer's request for tasks, and the answer
//	Queue, QueueSize        a queue's policy and counts
//	Reply, Err…             the answer to a command, or the reason why there is none
//	MergeSpec, KeepMasked   the merge of a patch; header values that no answer shows
//
// The messages themselves (task, command, result) are protobuf, in package fsmpb. The addresses of receivers are in
// package targeturl.
//
// The package holds no state, reads no clock, and imports no other package of this module than these two. An HTTP
// handler or a deliverer needs it, and never needs the machine that applies commands (package fsm).
package task
