package store

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

// Restore returns the store of a snapshot, checked against the snapshot's own state hash.
func Restore(shard uint32, r io.Reader) (*Store, error) {
	in := &snapshotReader{from: bufio.NewReaderSize(r, 256<<10)}
	s := New(shard)
	if err := s.restore(in); err != nil {
		return nil, fmt.Errorf("snapshot of shard %d: %w", shard, err)
	}
	return s, nil
}

func (s *Store) restore(in *snapshotReader) error {
	if err := s.restoreHeader(in); err != nil {
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
			s.restoreLists(read.listed)
			return s.checkRestored(trailer, read.tasks)
		}
		if err := s.restoreRecord(&rec, &read); err != nil {
			return err
		}
	}
}

// restoring is what of a snapshot has been read so far.
type restoring struct {
	tasks  uint64
	listed []listedTask // those that have a place in a list
}

func (s *Store) restoreRecord(rec *fsmpb.SnapshotRecord, read *restoring) error {
	switch rec := rec.Record.(type) {
	case *fsmpb.SnapshotRecord_Rule:
		s.SetRule(rec.Rule)
	case *fsmpb.SnapshotRecord_Task:
		read.tasks++
		h, err := s.restoreTask(rec.Task)
		if err != nil {
			return fmt.Errorf("task %d: %w", read.tasks, err)
		}
		if s.tasks.Read(h).progress != 0 {
			read.listed = append(read.listed, listedTask{h, rec.Task.Order})
		}
	default:
		return fmt.Errorf("after %d tasks: a record of a kind unknown to this build: upgrade this node", read.tasks)
	}
	return nil
}

func (s *Store) restoreHeader(in *snapshotReader) error {
	var header fsmpb.SnapshotHeader
	if err := in.get(&header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	switch {
	case header.Version > Version:
		return fmt.Errorf("command version %d, and this build knows %d at most: upgrade this node",
			header.Version, Version)
	case header.Number > wheel.MaxSeq || header.NowMs < 0:
		return errors.New("header has a number out of range")
	case header.Shard != s.shard:
		return fmt.Errorf("it is of shard %d", header.Shard)
	}
	s.Number, s.NowMs, s.Origin = header.Number, header.NowMs, header.Origin
	s.Defaults = Defaults{header.TombstoneBytes, header.HorizonMs, header.KeepDoneMs}
	s.wheel = wheel.New(nodes{s.tasks}, header.PositionMs)
	return nil
}

func (s *Store) checkRestored(trailer *fsmpb.SnapshotTrailer, count uint64) error {
	if trailer.Tasks != count {
		return fmt.Errorf("has %d tasks where its trailer says %d", count, trailer.Tasks)
	}
	if sum := s.Hash(); sum != trailer.Sum {
		return fmt.Errorf("its tasks hash to %x where its trailer says %x", sum, trailer.Sum)
	}
	return nil
}

func (s *Store) restoreTask(t *fsmpb.SnapshotTask) (handle, error) {
	if err := s.checkSnapshotTask(t); err != nil {
		return 0, err
	}
	task := t.Task
	spec := task.Spec
	if spec == nil {
		spec = &fsmpb.Spec{}
	}
	content := Content{Spec: spec, CreatedMs: task.CreatedAtMs, Occurrence: task.Occurrence, DelayMs: NoDelay}
	if t.DelayMs != nil {
		content.DelayMs = *t.DelayMs
	}
	c := s.newCold(task.Namespace, &content)
	keys := rememberedIn(t.Remembered)
	if len(keys) > 0 {
		c.takeFirst(&keys[0], task.FireAtMs)
	}
	h := s.add(s.PlaceOf(task.Namespace, task.Id), task.Namespace, task.Id, c)
	if task.State != fsmpb.State_STATE_SCHEDULED {
		s.restoreProgress(h, task)
	}
	if t.InWheel {
		s.wheel.Insert(h, t.WheelDueMs, t.WheelSeq)
		s.tasks.Write(h).waits = true
	}
	if len(keys) > 0 {
		s.putKeys(h, keys)
		s.addKeys(h)
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

func (s *Store) checkSnapshotTask(t *fsmpb.SnapshotTask) error {
	task := t.GetTask()
	switch {
	case task.GetId() == "":
		return errors.New("has no id")
	case task.State < fsmpb.State_STATE_SCHEDULED || task.State > fsmpb.State_STATE_CANCELLED:
		return fmt.Errorf("%q is in state %d, which there is not", task.Id, task.State)
	case task.State == fsmpb.State_STATE_SCHEDULED && !t.InWheel:
		return fmt.Errorf("%q is scheduled and in no wheel", task.Id)
	case task.CreatedAtMs>>48 != 0 || t.GetDelayMs() < 0 || t.WheelSeq > s.Number || task.Occurrence > s.Number:
		return fmt.Errorf("%q has a number out of range", task.Id)
	case s.find(task.Namespace, task.Id) != 0:
		return fmt.Errorf("%q is there twice", task.Id)
	}
	return nil
}

func (s *Store) restoreProgress(h handle, task *fsmpb.Task) {
	p := s.progressOf(h)
	p.fireAt, p.fence, p.attempts = task.FireAtMs, task.Fence, task.Attempts
	p.outcome = uint8(task.Outcome)
	s.putHistory(p, historyOf(task))
	Edit{Task{s, h}}.SetState(task.State)
	p.revision = task.Revision
	p.leased = task.Leased && task.State == fsmpb.State_STATE_FIRING
}

type listedTask struct {
	h     handle
	order int64
}

// restoreLists puts begun tasks back into their lists, in the order in which they were there.
func (s *Store) restoreLists(listed []listedTask) {
	slices.SortFunc(listed, func(a, b listedTask) int { return cmp.Compare(a.order, b.order) })
	for _, t := range listed {
		r := s.tasks.Read(t.h)
		switch fsmpb.State(r.state) {
		case fsmpb.State_STATE_READY:
			l := s.restoreLane(t.h)
			l.ready.pushBack(s.links(), t.h, t.order)
		case fsmpb.State_STATE_FIRING:
			l := s.restoreLane(t.h)
			l.firing.pushBack(s.links(), t.h, t.order)
		case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
			p := s.progressOf(t.h)
			s.tombstones.pushBack(s.links(), t.h, t.order)
			p.size = s.footprint(t.h)
			s.tombstoneBytes += int64(p.size)
		}
	}
	s.SettleLanes(false)
	s.landAll()
}

func (s *Store) restoreLane(h handle) *Lane {
	l := s.openLane(s.tasks.Read(h))
	s.progressOf(h).lane = l.number
	s.lanes.touch(l)
	return l
}

// landAll adds every record to the state hash, now that each is whole.
func (s *Store) landAll() {
	for slot := uint32(0); slot < task.Slots; slot++ {
		for h := range s.index.Each(slot) {
			s.land(h)
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
