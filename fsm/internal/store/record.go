package store

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/wheel"
)

// handle addresses a record in the task slab. It differs between replicas and never leaves this package.
type handle = uint32

const inlineIDBytes = 24

// record is the hot part of a task: one cache line. The zero record is a free one.
type record struct {
	wheel.Node
	cold     slab.Ref // the content of the task: see cold
	keys     slab.Ref // the remembered keys except the first: see remembered; 0: none
	progress uint32   // the progress record; 0: the task is scheduled, and its revision is its number in the wheel
	state    uint8    // fsmpb.State
	idLen    uint8    // length of the inline id in bytes; 0: the cold blob has the id
	waits    bool     // the task is in the wheel, or was popped just now
	parked   bool     // the task came due in a slot that is not open, and returns to the wheel; never with waits
	id       [inlineIDBytes]byte
}

func (r *record) is(s fsmpb.State) bool { return r.state == uint8(s) }

// waitsForAttempt reports whether the task waits for an attempt. Other tasks in the wheel wait for the end of a lease
// or of a tombstone, and schedules for their next occurrence.
func (r *record) waitsForAttempt() bool {
	return r.is(fsmpb.State_STATE_SCHEDULED) || r.is(fsmpb.State_STATE_RETRYING)
}

// progress is the second record of a task. A task has it from the moment it comes due, and before if its revision is
// not its place in the wheel: see Rebuild.
type progress struct {
	fireAt   int64
	revision uint64
	fence    uint64 // of the current or last grant; 0 before the first
	order    int64  // place in its list; ascends from head to tail
	lane     uint32 // 0: in none
	next     handle // next in the lane's ready or firing list, or among the tombstones
	prev     handle
	attempts uint32   // begun in the current occurrence
	history  slab.Ref // 0: no attempt has ended, and there is no last error
	outcome  uint8    // fsmpb.CancelOutcome; STOPPED while firing: no further attempt is granted
	leased   bool     // a consumer has the task; only while firing
	priority uint8    // of a ranked ready task; otherwise 0
	retried  bool     // of a ready task: it waits among those with an ended attempt
	size     uint32   // bytes of a tombstone, counted against the bound; 0: not counted
	isolated bool     // lane is of an isolated path
	_        [3]byte
}

// IsTombstone reports whether a task in this state has ended.
func IsTombstone(s fsmpb.State) bool {
	return s == fsmpb.State_STATE_DELIVERED || s == fsmpb.State_STATE_DEAD || s == fsmpb.State_STATE_CANCELLED
}

// nodes lets the wheel reach its nodes inside the records.
type nodes struct{ tasks *slab.Pages[record] }

func (n nodes) Read(h wheel.Handle) *wheel.Node  { return &n.tasks.Read(h).Node }
func (n nodes) Write(h wheel.Handle) *wheel.Node { return &n.tasks.Write(h).Node }
