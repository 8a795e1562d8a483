package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Edit is a task that Store.Change has opened for writing. It is valid until Change returns.
type Edit struct{ Task }

// Change calls edit to write to a task. It first takes the task out of the state hash and of all counts, and
// afterwards puts the changed task back unless edit has dropped it.
func (s *Store) Change(t Task, edit func(Edit)) {
	var before outline
	dues, id := dueKeysOf(t), s.mem.identityOf(s.mem.slotOf(t.record()), t.h)
	if s.events.tell != nil {
		before = outlineOf(t)
	}
	s.lift(t.h, id)
	edit(Edit{t})
	if s.mem.tasks.Read(t.h).state == 0 {
		s.dues.remove(dues, id.slot, t.h)
		return
	}
	if now := dueKeysOf(t); now != dues {
		s.dues.remove(dues, id.slot, t.h)
		s.dues.add(now, id.slot, t.h)
	}
	s.land(t.h, id)
	if s.events.tell != nil {
		s.events.changed(t, before)
	}
}

// write returns the task's progress for writing; a scheduled task gets one.
func (e Edit) write() *progress { return e.s.mem.progressOf(e.h) }

// Begin gives a scheduled task its progress record, which it needs from the moment it comes due.
func (e Edit) Begin() { e.write() }

// SetState moves a begun task to another state and takes the current number as its revision. No consumer has the task
// afterwards.
func (e Edit) SetState(to fsmpb.State) {
	e.s.mem.tasks.Write(e.h).state = uint8(to)
	p := e.write()
	p.revision, p.leased = e.s.Number, false
}

// Renew takes the current number as the begun task's revision.
func (e Edit) Renew() { e.write().revision = e.s.Number }

// SetOutcome records the answer of a cancel.
func (e Edit) SetOutcome(outcome fsmpb.CancelOutcome) { e.write().outcome = uint8(outcome) }

// SetAttempts sets the number of attempts of the current occurrence that have begun.
func (e Edit) SetAttempts(n uint32) { e.write().attempts = n }

// WaitUntil puts the task into the wheel, or moves it there, under the current number. dueMs is in Unix milliseconds.
func (e Edit) WaitUntil(dueMs int64) { e.s.waitUntil(e.h, dueMs) }

// StopWaiting takes the task out of the wheel.
func (e Edit) StopWaiting() {
	if e.record().waits {
		e.s.wheel.Remove(e.h)
		e.s.mem.tasks.Write(e.h).waits = false
	}
}

// Hasten makes a scheduled or retrying task due at an instant no later than its own.
func (e Edit) Hasten(dueMs int64) {
	if e.State() == fsmpb.State_STATE_SCHEDULED {
		e.writeFirstOut()
		e.s.mem.dropProgress(e.h)
	}
	e.WaitUntil(min(dueMs, e.WaitsUntilMs()))
	if e.record().progress != 0 {
		e.Renew()
	}
}

// Reschedule puts the task back into the wheel as a scheduled one, as if no attempt had begun.
func (e Edit) Reschedule(fireAtMs int64) {
	e.writeFirstOut()
	e.LeaveList()
	e.s.mem.dropProgress(e.h)
	e.s.mem.tasks.Write(e.h).state = uint8(fsmpb.State_STATE_SCHEDULED)
	e.WaitUntil(fireAtMs)
}

// Hold takes back a grant whose attempt did not begin, and puts the task into the wheel until dueMs. A task without an
// earlier attempt is scheduled again, and keeps its due time.
func (e Edit) Hold(dueMs int64) {
	if p := e.read(); p.attempts > 0 || e.s.mem.hasPast(p) {
		e.AwaitRetry(dueMs)
		return
	}
	e.LeaveList()
	e.SetState(fsmpb.State_STATE_SCHEDULED)
	e.WaitUntil(dueMs)
}

// Drop removes the task. None of its data can be read afterwards.
func (e Edit) Drop() {
	s := e.s
	if s.Moves.watch != nil {
		s.Moves.watch.drop(e.Task)
	}
	e.StopWaiting()
	e.LeaveList()
	e.dropKeys() // their encoding may depend on the progress
	s.mem.dropProgress(e.h)
	r := e.record()
	at := s.PlaceOf(s.mem.idOf(r))
	s.index.Delete(at.slot, at.hash, e.h)
	c := e.cold()
	s.labels.removeTask(e.h, e.Namespace(), s.mem.labelsOf(&c))
	s.dropCold(r)
	s.Schedules.forget(e.h)
	s.mem.tasks.Free(e.h)
}

// Entomb ends the task as delivered or cancelled and drops its payload. The tombstone is kept for the time in its
// queue's rule, or else in the defaults.
func (e Edit) Entomb(as fsmpb.State) {
	s := e.s
	e.StopWaiting()
	e.LeaveList()
	e.DropPayload()
	e.SetState(as)
	e.NoteEnd(e.State(), "")
	keep := e.Rule().KeepDoneMs
	if keep <= 0 {
		keep = s.KeepDoneMs
	}
	e.WaitUntil(roundUpToSecond(s.NowMs + keep))
	e.joinTombstones(int64(s.Number))
}

// joinTombstones makes the task the youngest tombstone, at a place behind those of the others.
func (e Edit) joinTombstones(order int64) {
	s := e.s
	s.tombstones.pushBack(s.mem.links(), e.h, order)
	p := e.write()
	p.size = s.mem.footprint(e.h)
	s.tombstoneBytes += int64(p.size)
}

// Bury makes the task a dead letter. It is kept for the time in its queue's rule. If the rule sets none, or sets none
// any more when the time is over, the dead letter stays until a call replays or drops it.
func (e Edit) Bury() {
	e.StopWaiting()
	e.LeaveList()
	e.SetState(fsmpb.State_STATE_DEAD)
	e.NoteEnd(e.State(), "")
	if ms := e.Rule().KeepDeadMs; ms > 0 {
		e.WaitUntil(roundUpToSecond(e.s.NowMs + ms))
	}
}

// footprint returns about how many bytes a tombstone holds. The result must be the same on every replica.
func (m *memory) footprint(h handle) uint32 {
	const recordAndProgressAndIndex = 64 + 64 + 13
	r := m.tasks.Read(h)
	c := readCold(m.blobs.Get(r.cold))
	history := m.blob(m.progress.Read(r.progress).history)
	return uint32(recordAndProgressAndIndex + 24 + len(c.id) + extraBytes(m.extraOf(&c)) + len(history))
}

func roundUpToSecond(ms int64) int64 { return (ms + 999) / 1000 * 1000 }

// TombstoneBytes returns the number of bytes that the tombstones hold, which TombstoneBound bounds.
func (s *Store) TombstoneBytes() int64 { return s.tombstoneBytes }

// TrimTombstones drops the oldest tombstones while their bytes exceed the bound. It keeps the tombstones of sealed
// slots, and no longer counts them.
func (s *Store) TrimTombstones() {
	for s.TombstoneBound > 0 && s.tombstoneBytes > s.TombstoneBound && s.tombstones.head != 0 {
		oldest := Edit{Task{s, s.tombstones.head}}
		if s.Slots.AllOpen() || s.Slots.IsOpen(s.mem.slotOf(oldest.record())) {
			s.Change(oldest.Task, Edit.Drop)
		} else {
			oldest.rest()
		}
	}
}
