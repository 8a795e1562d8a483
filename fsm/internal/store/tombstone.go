package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// Entomb ends the task as delivered or cancelled and drops its payload. The tombstone is kept for the time in its
// queue's rule, or else in the defaults.
func (e Edit) Entomb(as fsmpb.State) {
	s := e.s
	e.StopWaiting()
	e.LeaveList()
	e.DropPayload()
	e.SetState(as)
	e.NoteEnd(e.State(), "")
	e.WaitUntil(roundUpToSecond(s.NowMs + s.keepDone(e.Rule())))
	e.joinTombstones()
}

// joinTombstones makes the task the youngest tombstone.
func (e Edit) joinTombstones() {
	s := e.s
	s.tombstones.pushBack(s.mem.links(), e.h, int64(s.Number))
	p := e.write()
	p.size = s.mem.footprint(e.h)
	s.tombstoneBytes += int64(p.size)
}

func (s *Store) keepDone(rule *fsmpb.QueueRule) int64 {
	if ms := rule.KeepDoneMs; ms > 0 {
		return ms
	}
	return s.KeepDoneMs
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
