package fsm

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// maxSnapshotRecord bounds what a length in a damaged snapshot can make us allocate. The largest task is its payload,
// its headers and labels, and the repeats of neither.
const maxSnapshotRecord = 1 << 20

// Restore replaces the state by a snapshot's. The new state is built aside and checked against the snapshot's own state
// hash; after an error the old one is untouched.
func (m *Machine) Restore(r io.Reader) error {
	in := &snapshotReader{from: bufio.NewReaderSize(r, 256<<10)}
	fresh := &Machine{shard: m.shard, state: newState()}
	if err := fresh.restore(in); err != nil {
		return fmt.Errorf("snapshot of shard %d: %w", m.shard, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	flawKeepsScheduled(fresh, m.state)
	m.state = fresh.state
	return nil
}

func (m *Machine) restore(in *snapshotReader) error {
	if err := m.restoreHeader(in); err != nil {
		return err
	}
	var read restoring
	var rec fsmpb.SnapshotRecord
	for {
		rec.ResetVT()
		if err := in.get(&rec); err != nil {
			return fmt.Errorf("after %d tasks: %w", read.tasks, err)
		}
		if trailer := rec.GetTrailer(); trailer != nil {
			m.restoreLists(read.listed)
			return m.checkRestored(trailer, read.tasks)
		}
		if err := m.restoreRecord(&rec, &read); err != nil {
			return err
		}
	}
}

// restoring is what of a snapshot has been read so far.
type restoring struct {
	tasks  uint64
	listed []listedTask // those that have a place in a list
}

func (m *Machine) restoreRecord(rec *fsmpb.SnapshotRecord, read *restoring) error {
	switch rec := rec.Record.(type) {
	case *fsmpb.SnapshotRecord_Rule:
		m.setRule(rec.Rule)
	case *fsmpb.SnapshotRecord_Task:
		read.tasks++
		h, err := m.restoreTask(rec.Task)
		if err != nil {
			return fmt.Errorf("task %d: %w", read.tasks, err)
		}
		if m.tasks.Read(h).progress != 0 {
			read.listed = append(read.listed, listedTask{h, rec.Task.Order})
		}
	default:
		return fmt.Errorf("after %d tasks: a record of a kind unknown to this build: upgrade this node", read.tasks)
	}
	return nil
}

func (m *Machine) restoreHeader(in *snapshotReader) error {
	var header fsmpb.SnapshotHeader
	if err := in.get(&header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	switch {
	case header.Version > CommandVersion:
		return fmt.Errorf("command version %d, and this build knows %d at most: upgrade this node",
			header.Version, CommandVersion)
	case header.Number > wheel.MaxSeq || header.NowMs < 0:
		return errors.New("header has a number out of range")
	case header.Shard != m.shard:
		return fmt.Errorf("it is of shard %d", header.Shard)
	}
	m.number, m.now, m.origin = header.Number, header.NowMs, header.Origin
	m.tombstoneBound, m.horizon = header.TombstoneBytes, header.HorizonMs
	m.wheel = wheel.New(nodes{m.tasks}, header.PositionMs)
	return nil
}

func (m *Machine) checkRestored(trailer *fsmpb.SnapshotTrailer, count uint64) error {
	if trailer.Tasks != count {
		return fmt.Errorf("has %d tasks where its trailer says %d", count, trailer.Tasks)
	}
	if sum := m.hash(); sum != trailer.Sum {
		return fmt.Errorf("its tasks hash to %x where its trailer says %x", sum, trailer.Sum)
	}
	return nil
}

func (m *Machine) restoreTask(t *fsmpb.SnapshotTask) (handle, error) {
	if err := m.checkSnapshotTask(t); err != nil {
		return 0, err
	}
	task := t.Task
	spec := task.Spec
	if spec == nil {
		spec = &fsmpb.Spec{}
	}
	c := m.newCold(task.Namespace, spec, task.CreatedAtMs, task.Occurrence, delayOf(t.DelayMs))
	keys := rememberedIn(t.Remembered)
	if len(keys) > 0 {
		c.takeFirst(&keys[0], task.FireAtMs)
	}
	h := m.add(m.placeOf(task.Namespace, task.Id), task.Namespace, task.Id, c)
	if task.State != fsmpb.State_STATE_SCHEDULED {
		m.restoreProgress(h, task)
	}
	if t.InWheel {
		m.wheel.Insert(h, t.WheelDueMs, t.WheelSeq)
		m.tasks.Write(h).waits = true
	}
	if len(keys) > 0 {
		m.putKeys(h, keys)
		m.addKeys(h)
	}
	return h, nil
}

func rememberedIn(messages *fsmpb.Remembered) []remembered {
	var keys []remembered
	for _, k := range messages.GetKeys() {
		keys = append(keys, rememberedOf(k))
	}
	return keys
}

func (m *Machine) checkSnapshotTask(t *fsmpb.SnapshotTask) error {
	task := t.GetTask()
	switch {
	case task.GetId() == "":
		return errors.New("has no id")
	case task.State < fsmpb.State_STATE_SCHEDULED || task.State > fsmpb.State_STATE_CANCELLED:
		return fmt.Errorf("%q is in state %d, which there is not", task.Id, task.State)
	case task.State == fsmpb.State_STATE_SCHEDULED && !t.InWheel:
		return fmt.Errorf("%q is scheduled and in no wheel", task.Id)
	case task.CreatedAtMs>>48 != 0 || t.GetDelayMs() < 0 || t.WheelSeq > m.number || task.Occurrence > m.number:
		return fmt.Errorf("%q has a number out of range", task.Id)
	case m.find(task.Namespace, task.Id) != 0:
		return fmt.Errorf("%q is there twice", task.Id)
	}
	return nil
}

func (m *Machine) restoreProgress(h handle, task *fsmpb.Task) {
	p := m.progressOf(h)
	p.fireAt, p.fence, p.attempts = task.FireAtMs, task.Fence, task.Attempts
	p.outcome = uint8(task.Outcome)
	m.putHistory(p, historyOf(task))
	m.setState(h, task.State)
	p.revision = task.Revision
	p.leased = task.Leased && task.State == fsmpb.State_STATE_FIRING
}

type listedTask struct {
	h     handle
	order int64
}

// restoreLists puts begun tasks back into their lists, in the order in which they were there.
func (m *Machine) restoreLists(listed []listedTask) {
	slices.SortFunc(listed, func(a, b listedTask) int { return cmp.Compare(a.order, b.order) })
	for _, t := range listed {
		r := m.tasks.Read(t.h)
		switch fsmpb.State(r.state) {
		case fsmpb.State_STATE_READY:
			l := m.restoreLane(t.h)
			l.ready.pushBack(m.links(), t.h, t.order)
		case fsmpb.State_STATE_FIRING:
			l := m.restoreLane(t.h)
			l.firing.pushBack(m.links(), t.h, t.order)
		case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
			p := m.progressOf(t.h)
			m.tombstones.pushBack(m.links(), t.h, t.order)
			p.size = m.footprint(t.h)
			m.tombstoneBytes += int64(p.size)
		}
	}
	m.settleLanes(false)
	m.landAll()
}

func (m *Machine) restoreLane(h handle) *lane {
	l := m.openLane(m.tasks.Read(h))
	m.progressOf(h).lane = l.number
	m.lanes.touch(l)
	return l
}

// landAll adds every record to the state hash, now that each is whole.
func (m *Machine) landAll() {
	for slot := uint32(0); slot < task.Slots; slot++ {
		for h := range m.index.Each(slot) {
			m.land(h)
		}
	}
}

// snapshotReader reads messages with their lengths before them.
type snapshotReader struct {
	from   *bufio.Reader
	record []byte // the last one, which its message points into
}

// get reads the next message. It is good until the next call, and what is kept of it has to be copied.
func (s *snapshotReader) get(m interface{ UnmarshalVTUnsafe(b []byte) error }) error {
	size, err := binary.ReadUvarint(s.from)
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF // a snapshot ends with its trailer, and not before
	case err != nil:
		return err
	case size > maxSnapshotRecord:
		return fmt.Errorf("a record of %d bytes: %d is the limit", size, maxSnapshotRecord)
	}
	s.record = slices.Grow(s.record[:0], int(size))[:size]
	switch _, err := io.ReadFull(s.from, s.record); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	return m.UnmarshalVTUnsafe(s.record)
}
