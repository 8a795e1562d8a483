package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Task is a reference to one task of a store, or to none: see Exists. It is valid until the task is dropped. Only
// Store.Change lets a caller write to a task.
type Task struct {
	s *Store
	h handle
}

// noProgress stands for the progress of a task that has none. It is never written to.
var noProgress progress

func (t Task) record() *record { return t.s.mem.tasks.Read(t.h) }

// read returns the progress of a task, all zero if the task has not begun. The caller must not change it.
func (t Task) read() *progress {
	if n := t.record().progress; n != 0 {
		return t.s.mem.progress.Read(n)
	}
	return &noProgress
}

func (t Task) head() coldHead { return t.s.mem.headOf(t.record()) }

func (t Task) history() history { return readHistory(t.s.mem.blob(t.read().history), nil) }

// lastEnded returns the attempt that ended last. ok is false if none has ended.
func (t Task) lastEnded() (last ended, ok bool) { return readLast(t.s.mem.blob(t.read().history)) }

// Exists reports whether the task exists. Of a task that does not exist, only Revision may be called, which returns 0.
func (t Task) Exists() bool { return t.h != 0 }

// ID returns the task's namespace and id.
func (t Task) ID() (namespace, id string) { return t.s.mem.idOf(t.record()) }

// State returns the task's state.
func (t Task) State() fsmpb.State { return fsmpb.State(t.record().state) }

// Revision returns the number of the task's last change, or 0 if the task does not exist.
func (t Task) Revision() uint64 {
	if t.h == 0 {
		return 0
	}
	return t.s.mem.revisionOf(t.record())
}

// slot returns the slot of the task's id.
func (t Task) slot() uint32 { return t.s.mem.slotOf(t.record()) }

// FireAtMs returns the task's due time, in Unix milliseconds, even if the task now waits for another instant.
func (t Task) FireAtMs() int64 { return t.s.mem.fireAtOf(t.record()) }

// WaitsUntilMs returns the instant that the task waits for in the wheel, or the last one that it waited for.
func (t Task) WaitsUntilMs() int64 { return t.record().Due() }

// Occurrence returns the number of the current occurrence.
func (t Task) Occurrence() uint64 { return occurrenceIn(t.s.mem.blobs.Get(t.record().cold)) }

// CreatedMs returns the instant at which the task was made, in Unix milliseconds.
func (t Task) CreatedMs() int64 { return t.head().created }

// Attempts returns the number of attempts of the current occurrence that have begun.
func (t Task) Attempts() uint32 { return t.read().attempts }

// Fence returns the fence of the current or last grant, or 0 if there was none.
func (t Task) Fence() uint64 { return t.read().fence }

// Outcome returns the effect that cancels had on the task. The outcome "stopped" of a firing task means that no
// further attempt is granted.
func (t Task) Outcome() fsmpb.CancelOutcome { return fsmpb.CancelOutcome(t.read().outcome) }

// Leased reports whether a consumer has the task.
func (t Task) Leased() bool { return t.read().leased }

// Begun reports whether an attempt of the current occurrence has ever begun.
func (t Task) Begun() bool {
	switch t.State() {
	case fsmpb.State_STATE_SCHEDULED:
		return false
	case fsmpb.State_STATE_READY:
		p := t.read()
		return p.attempts > 0 || t.s.mem.hasPast(p) // a replay has set the attempts to 0
	}
	return true
}

// Lane returns the lane of a ready or firing task, or nil if the task's slot is not open.
func (t Task) Lane() *Lane { return t.s.Lanes.at(t.read().lane) }

// Rule returns the rule of the task's queue. It is never nil, and the caller must not change it.
func (t Task) Rule() *fsmpb.QueueRule { return t.s.mem.queueOf(t.record()).rule }

// View returns the task as a caller sees it, with its payload only if withPayload is set.
func (t Task) View(withPayload bool) *fsmpb.Task {
	s, r, c := t.s, t.record(), t.cold()
	namespace, id := t.ID()
	v := &fsmpb.Task{
		Namespace:   namespace,
		Id:          id,
		Spec:        s.mem.specOf(&c, withPayload),
		FireAtMs:    t.FireAtMs(),
		CreatedAtMs: c.created,
		State:       t.State(),
		Revision:    t.Revision(),
		Occurrence:  c.occurrence,
		WebhookId:   s.Origins.WebhookID(namespace, id, c.occurrence),
		Shard:       s.shard,
	}
	if r.is(fsmpb.State_STATE_REPEATING) {
		v.Series = t.Series()
	}
	if r.progress == 0 {
		return v
	}
	p := t.read()
	v.Attempts, v.Fence = p.attempts, p.fence
	flawChangesWebhookID(s, v)
	history := t.history()
	history.addTo(v)
	v.Outcome = t.Outcome()
	if p.leased {
		v.Leased, v.LeaseEndMs = true, r.Due()-s.HorizonMs
	}
	if v.State == fsmpb.State_STATE_RETRYING || v.State == fsmpb.State_STATE_SCHEDULED && r.Due() != p.fireAt {
		v.NextAttemptAtMs = r.Due()
	}
	return v
}
