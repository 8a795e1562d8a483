package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Task is one task of a store, or none: see Exists. It is valid until the task is dropped. Only Store.Change gives the
// means to write to it.
type Task struct {
	s *Store
	h handle
}

// noProgress is the progress of a task that has none. It is never written to.
var noProgress progress

func (t Task) record() *record { return t.s.tasks.Read(t.h) }

// read returns the progress of a task, all zero if it has not begun, to be read only.
func (t Task) read() *progress {
	if n := t.record().progress; n != 0 {
		return t.s.progress.Read(n)
	}
	return &noProgress
}

func (t Task) head() coldHead { return t.s.headOf(t.record()) }

// Exists reports whether there is a task. One that does not has a Revision, of 0, and nothing else.
func (t Task) Exists() bool { return t.h != 0 }

// ID returns the task's namespace and id.
func (t Task) ID() (namespace, id string) { return t.s.idOf(t.record()) }

// State returns the task's state.
func (t Task) State() fsmpb.State { return fsmpb.State(t.record().state) }

// Revision returns the number of the task's last change; 0 if there is no task.
func (t Task) Revision() uint64 {
	if t.h == 0 {
		return 0
	}
	r := t.record()
	if r.progress == 0 {
		return r.Seq()
	}
	return t.s.progress.Read(r.progress).revision
}

// FireAtMs returns the task's due time, whatever it waits for now.
func (t Task) FireAtMs() int64 { return t.s.fireAtOf(t.record()) }

// WaitsUntilMs returns the instant that the task waits for in the wheel, or last did.
func (t Task) WaitsUntilMs() int64 { return t.record().Due() }

// Occurrence returns the number of the current occurrence.
func (t Task) Occurrence() uint64 { return t.head().occurrence }

// CreatedMs returns the instant at which the task was made.
func (t Task) CreatedMs() int64 { return t.head().created }

// Attempts returns how many attempts of the current occurrence have begun.
func (t Task) Attempts() uint32 { return t.read().attempts }

// Fence returns the fence of the current or last grant; 0: there was none.
func (t Task) Fence() uint64 { return t.read().fence }

// Outcome returns what cancels have done to the task. For a firing one, stopped says that no further attempt is
// granted.
func (t Task) Outcome() fsmpb.CancelOutcome { return fsmpb.CancelOutcome(t.read().outcome) }

// Leased reports whether a consumer has the task.
func (t Task) Leased() bool { return t.read().leased }

// Begun reports whether an attempt of the current occurrence was ever begun.
func (t Task) Begun() bool {
	switch t.State() {
	case fsmpb.State_STATE_SCHEDULED:
		return false
	case fsmpb.State_STATE_READY:
		p := t.read()
		return p.attempts > 0 || t.s.hasPast(p) // a replay has set the attempts to 0
	}
	return true
}

// Lane returns the lane that the begun task is in.
func (t Task) Lane() *Lane { return t.s.lanes.at(t.read().lane) }

// Rule returns the rule of the task's queue, which is never nil and to be read only.
func (t Task) Rule() *fsmpb.QueueRule { return t.s.queueOf(t.record()).rule }

// fireAtOf returns when a task is due, whatever it waits for now.
func (s *Store) fireAtOf(r *record) int64 {
	if r.progress == 0 {
		return r.Due()
	}
	return s.progress.Read(r.progress).fireAt
}
