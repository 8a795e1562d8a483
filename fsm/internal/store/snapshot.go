package store

import (
	"bufio"
	"encoding/binary"
	"io"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
)

// Snapshot is a view of the store at one moment. Taking one costs microseconds. Pages that change afterwards keep
// their before-image until the snapshot is released.
type Snapshot struct {
	header   *fsmpb.SnapshotHeader
	rules    []*fsmpb.QueueRule
	sum      uint64
	tasks    *slab.Frozen[record]
	progress *slab.Frozen[progress]
	blobs    *slab.FrozenArena
	values   shared // only the shared values at that moment are set
}

// Snapshot takes a snapshot. The caller must Release it before it takes the next one.
func (s *Store) Snapshot() *Snapshot {
	return &Snapshot{
		header: &fsmpb.SnapshotHeader{
			Version:        s.Version,
			Shard:          s.shard,
			Number:         s.Number,
			NowMs:          s.NowMs,
			PositionMs:     s.wheel.Position(),
			Origin:         s.Origins.Own,
			TombstoneBytes: s.TombstoneBound,
			HorizonMs:      s.HorizonMs,
			KeepDoneMs:     s.KeepDoneMs,
			Slots:          s.Slots.Messages(),
			Coming:         s.Moves.coming.message(),
			Inherited:      s.Origins.Inherited,
			Isolated:       s.Lanes.isolation.messages(),
		},
		rules:    s.mem.queues.allRules(),
		sum:      s.Hash(),
		tasks:    s.mem.tasks.Freeze(),
		progress: s.mem.progress.Freeze(),
		blobs:    s.mem.blobs.Freeze(),
		values:   s.mem.shared.copyForReading(),
	}
}

// Release ends the snapshot. Any goroutine may call it, more than once, and without a WriteTo before.
func (s *Snapshot) Release() {
	s.tasks.Release()
	s.progress.Release()
	s.blobs.Release()
}

// WriteTo writes the snapshot: header, rules, tasks, trailer, each a length-delimited message. It may run on any
// goroutine while the store changes.
func (s *Snapshot) WriteTo(w io.Writer) (int64, error) {
	out := countingWriter{w: bufio.NewWriterSize(w, 256<<10)}
	if err := out.put(s.header); err != nil {
		return out.n, err
	}
	for _, r := range s.rules {
		if err := out.put(&fsmpb.SnapshotRecord{Record: &fsmpb.SnapshotRecord_Rule{Rule: r}}); err != nil {
			return out.n, err
		}
	}
	var written uint64
	var page []record
	var m taskMessage
	for i := range s.tasks.Pages() {
		page = s.tasks.Page(i, page)
		for j := range page {
			if page[j].state == 0 {
				continue
			}
			if err := out.put(m.of(s, &page[j])); err != nil {
				return out.n, err
			}
			written++
		}
	}
	trailer := &fsmpb.SnapshotTrailer{Tasks: written, Sum: s.sum}
	if err := out.put(&fsmpb.SnapshotRecord{Record: &fsmpb.SnapshotRecord_Trailer{Trailer: trailer}}); err != nil {
		return out.n, err
	}
	return out.n, out.w.Flush()
}

type countingWriter struct {
	w       *bufio.Writer
	n       int64
	scratch []byte
}

// put writes a message preceded by its length.
func (c *countingWriter) put(m sizedMessage) error {
	size := m.SizeVT()
	c.scratch = binary.AppendUvarint(c.scratch[:0], uint64(size))
	at := len(c.scratch)
	c.scratch = slices.Grow(c.scratch, size)[:at+size]
	if _, err := m.MarshalToSizedBufferVT(c.scratch[at:]); err != nil {
		return err
	}
	n, err := c.w.Write(c.scratch)
	c.n += int64(n)
	return err
}

// sizedMessage is any message of package fsmpb.
type sizedMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT(b []byte) (int, error)
}

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

// taskSource is the memory behind a record: that of a snapshot or of the store.
type taskSource interface {
	blob(ref slab.Ref) []byte
	progressAt(n uint32) progress
	sharedValues() *shared
}

func (s *Snapshot) blob(ref slab.Ref) []byte     { return s.blobs.Get(ref) }
func (s *Snapshot) progressAt(n uint32) progress { return s.progress.At(n) }
func (s *Snapshot) sharedValues() *shared        { return &s.values }

// of makes m the record of a task. The result is valid until the next call, and until the source changes.
func (m *taskMessage) of(s taskSource, r *record) *fsmpb.SnapshotRecord {
	c := readCold(s.blob(r.cold))
	s.sharedValues().fillSpec(&m.spec, &c)
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
	if r.is(fsmpb.State_STATE_REPEATING) {
		m.seen.Series = s.sharedValues().extraOf(&c).Series
	}
	m.stored = fsmpb.SnapshotTask{Task: &m.seen, InWheel: r.waits, Parked: r.parked}
	if c.delay != NoDelay {
		m.delay = c.delay
		m.stored.DelayMs = &m.delay
	}
	if r.waits || r.parked {
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

func (m *taskMessage) addProgress(s taskSource, r *record) {
	p := s.progressAt(r.progress)
	t := &m.seen
	t.FireAtMs, t.Revision, t.Fence, t.Attempts = p.fireAt, p.revision, p.fence, p.attempts
	t.Outcome, t.Leased = fsmpb.CancelOutcome(p.outcome), p.leased
	history := readHistory(s.blob(p.history), nil)
	history.addTo(t)
	m.stored.Order, m.stored.Idle, m.stored.Isolated = p.order, p.isUnlisted(t.State), p.isolated
}

func (m *taskMessage) addRemembered(s taskSource, r *record, c *cold) {
	m.remembered.Keys = m.remembered.Keys[:0]
	var kept [keysRemembered]remembered
	for i, k := range readKeys(c.appendFirst(kept[:0], m.seen.FireAtMs), s.blob(r.keys), &c.coldHead) {
		if i == len(m.keys) {
			m.keys = append(m.keys, &keyMessage{})
		}
		k.fill(&m.keys[i].remembered, &m.keys[i].key)
		m.remembered.Keys = append(m.remembered.Keys, &m.keys[i].remembered)
	}
	m.stored.Remembered = &m.remembered
}
