package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// taskMessage is the record of one task in a snapshot. Its messages are used again for the next task. New messages for
// a million tasks would make most of a gigabyte of garbage, and cost more than their encoding.
type taskMessage struct {
	record     fsmpb.SnapshotRecord
	task       fsmpb.SnapshotRecord_Task
	stored     fsmpb.SnapshotTask
	seen       fsmpb.Task
	spec       fsmpb.Spec
	delay      int64
	remembered fsmpb.Remembered
	keys       []*keyMessage
}

type keyMessage struct {
	remembered fsmpb.RememberedKey
	key        fsmpb.Key
}

// of makes m the record of a task at the moment of the snapshot. The result is valid until the next call, and until
// the snapshot is released.
func (m *taskMessage) of(s *Snapshot, r *record) *fsmpb.SnapshotRecord {
	c := readCold(s.blobs.Get(r.cold))
	s.values.fillSpec(&m.spec, &c)
	m.spec.Payload = c.payload
	m.seen = fsmpb.Task{
		Namespace:   c.namespace,
		Id:          c.id,
		Spec:        &m.spec,
		FireAtMs:    r.Due(),
		CreatedAtMs: c.created,
		State:       fsmpb.State(r.state),
		Revision:    r.Seq(),
		Occurrence:  c.occurrence,
	}
	if r.idLen != 0 {
		m.seen.Id = string(r.id[:r.idLen])
	}
	m.stored = fsmpb.SnapshotTask{Task: &m.seen, InWheel: r.waits}
	if c.delay != NoDelay {
		m.delay = c.delay
		m.stored.DelayMs = &m.delay
	}
	if r.waits {
		m.stored.WheelDueMs, m.stored.WheelSeq = r.Due(), r.Seq()
	}
	if r.progress != 0 {
		m.addProgress(s, r)
	}
	if r.keys != 0 || c.first.kept {
		m.addRemembered(s, r, &c)
	}
	m.task.Task = &m.stored
	m.record.Record = &m.task
	return &m.record
}

func (m *taskMessage) addProgress(s *Snapshot, r *record) {
	p := s.progress.At(r.progress)
	t := &m.seen
	t.FireAtMs, t.Revision, t.Fence, t.Attempts = p.fireAt, p.revision, p.fence, p.attempts
	t.Outcome, t.Leased = fsmpb.CancelOutcome(p.outcome), p.leased
	history := readHistory(s.blobs.Get(p.history))
	history.addTo(t)
	m.stored.Order = p.order
}

func (m *taskMessage) addRemembered(s *Snapshot, r *record, c *cold) {
	m.remembered.Keys = m.remembered.Keys[:0]
	var kept [keysRemembered]remembered
	for i, k := range readKeys(c.appendFirst(kept[:0], m.seen.FireAtMs), s.blobs.Get(r.keys), &c.coldHead) {
		if i == len(m.keys) {
			m.keys = append(m.keys, &keyMessage{})
		}
		k.fill(&m.keys[i].remembered, &m.keys[i].key)
		m.remembered.Keys = append(m.remembered.Keys, &m.keys[i].remembered)
	}
	m.stored.Remembered = &m.remembered
}
