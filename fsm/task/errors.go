package task

import (
	"errors"
	"fmt"
)

// What can keep a call from being answered. Every package compares with errors.Is; nothing else defines such errors.
var (
	// ErrNotProposed: the call is certainly not committed and never will be. HTTP 503, "committed": "no".
	ErrNotProposed = errors.New("not committed")
	// ErrUnknown: the call may or may not be committed. HTTP 504, "committed": "unknown".
	ErrUnknown = errors.New("not known to be committed")
	// ErrOverloaded: refused before it was proposed, because too much waits already. HTTP 429.
	ErrOverloaded = errors.New("too many calls are waiting")
	// ErrNoRoom: refused before it was proposed, because the shard's disks are nearly full and it would need more of them.
	// HTTP 507, "committed": "no".
	ErrNoRoom = errors.New("the disks are nearly full: nothing is taken that needs more room")
	// ErrNoMemory: refused before it was proposed, because a node of the shard holds as many tasks as its memory allows,
	// and it would need more. HTTP 429. Such an error is a *MemoryError.
	ErrNoMemory = errors.New("the memory for tasks is used up")
)

// MemoryError is an ErrNoMemory that says whose memory it is.
type MemoryError struct {
	Node  string // its id
	Limit string // the limit that it has reached, for people
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("node %s holds as many tasks as its memory allows (limit %s)", e.Node, e.Limit)
}

// Is makes it an ErrNoMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrNoMemory }

// QueuesFullError says that as many queues have a policy as may, and that the call would give one to another. Nothing
// has changed. HTTP 409.
type QueuesFullError struct {
	Limit string // how many
}

func (e *QueuesFullError) Error() string {
	return fmt.Sprintf("as many queues have a policy as may (limit %s), and this one has none yet", e.Limit)
}

// NotLeaderError says that this replica does not lead the shard. It is an ErrNotProposed.
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

// Is tells that such a call was not proposed: it may be made again elsewhere.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotProposed }

// FieldError is a value that breaks a rule of the contract.
type FieldError struct {
	Field  string // as the caller wrote it, dotted: "target.url"
	Detail string // what is wrong, in words
	Limit  string // the limit it breaks; empty if it is not about one
}

func (e *FieldError) Error() string {
	if e.Limit == "" {
		return e.Field + ": " + e.Detail
	}
	return fmt.Sprintf("%s: %s (limit %s)", e.Field, e.Detail, e.Limit)
}
