package task

import (
	"errors"
	"fmt"
)

// These errors are the reasons why a call gets no result. Every package compares with errors.Is, and no other package
// defines such errors.
var (
	// ErrNotProposed means that the call is certainly not committed and never will be. HTTP 503, "committed": "no".
	ErrNotProposed = errors.New("not committed")
	// ErrUnknown means that the call may or may not be committed. HTTP 504, "committed": "unknown".
	ErrUnknown = errors.New("not known to be committed")
	// ErrOverloaded means that the call was refused before it was proposed because too many calls wait already. HTTP
	// 429.
	ErrOverloaded = errors.New("too many calls are waiting")
	// ErrNoRoom means that the call was refused before it was proposed because it needs disk space and the shard's
	// disks are nearly full. HTTP 507, "committed": "no".
	ErrNoRoom = errors.New("the disks are nearly full: nothing is taken that needs more room")
	// ErrNoMemory means that the call was refused before it was proposed because it needs memory and a node of the
	// shard holds as many tasks as its memory allows. HTTP 429. Such an error is a *MemoryError.
	ErrNoMemory = errors.New("the memory for tasks is used up")
	// ErrNoNode refuses an operation on a node that the cluster does not have. HTTP 404.
	ErrNoNode = errors.New("no node of the cluster has this id or name")
)

// MemoryError is an ErrNoMemory that names the node without memory.
type MemoryError struct {
	Node  string // the node's id
	Limit string // the limit that the node has reached, as text for people
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("node %s holds as many tasks as its memory allows (limit %s)", e.Node, e.Limit)
}

// Is reports whether target is ErrNoMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrNoMemory }

// QueuesFullError refuses a call that would set a policy for one queue more than may have one. The call has changed
// nothing. HTTP 409.
type QueuesFullError struct {
	Limit string // the largest number of queues with a policy
}

func (e *QueuesFullError) Error() string {
	return fmt.Sprintf("as many queues have a policy as may (limit %s), and this one has none yet", e.Limit)
}

// ImpossibleError refuses a change that cannot be carried out as things are: the state, or a node with an older build,
// does not allow it. Nothing has changed. HTTP 409.
type ImpossibleError struct{ Reason string }

func (e *ImpossibleError) Error() string { return e.Reason }

// NotLeaderError reports that this replica does not lead the shard. It is an ErrNotProposed.
type NotLeaderError struct {
	Shard  uint32
	Leader string // node id of the leader as far as this replica knows; empty: unknown
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return fmt.Sprintf("shard %d has no leader", e.Shard)
	}
	return fmt.Sprintf("shard %d is led by node %s", e.Shard, e.Leader)
}

// Is reports whether target is ErrNotProposed: the call was not proposed, and may be made again elsewhere.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotProposed }

// MovedError reports that another shard owns a task's slot, or soon does. It is an ErrNotProposed: the call was not
// carried out, and may be made again.
type MovedError struct {
	Shard  uint32 // the owner from Epoch on; it may be the shard that was asked
	Epoch  uint64 // of the slot map
	Moving bool   // the owner does not take calls on the task yet, but soon
}

func (e *MovedError) Error() string {
	if e.Moving {
		return fmt.Sprintf("the task is being moved to shard %d", e.Shard)
	}
	return fmt.Sprintf("the task has moved to shard %d", e.Shard)
}

// Is reports whether target is ErrNotProposed.
func (e *MovedError) Is(target error) bool { return target == ErrNotProposed }

// FieldError reports a field whose value breaks a rule of the contract: a limit, or a condition between fields. JSON of
// the wrong form is a MemberError of package internal/contract.
type FieldError struct {
	Field  string // as the caller wrote it, dotted: "target.url"
	Detail string // a description of the fault
	Limit  string // the limit that the value breaks; empty if the fault is no limit
}

func (e *FieldError) Error() string {
	if e.Limit == "" {
		return e.Field + ": " + e.Detail
	}
	return fmt.Sprintf("%s: %s (limit %s)", e.Field, e.Detail, e.Limit)
}
