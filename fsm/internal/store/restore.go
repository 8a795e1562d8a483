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
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// maxSnapshotRecord is the largest record, in bytes, that Restore allocates memory for, as a length in a damaged
// snapshot may be anything. The largest task is a payload with headers and labels, none of which is stored twice.
const maxSnapshotRecord = 1 << 20

// Restore builds a store from a snapshot and checks it against the snapshot's own state hash.
func Restore(shard uint32, r io.Reader) (*Store, error) {
	to := restoring{s: New(shard)}
	if err := to.read(r); err != nil {
		return nil, fmt.Errorf("snapshot of shard %d: %w", shard, err)
	}
	return to.s, nil
}

// restoring is a store under construction from a snapshot.
type restoring struct {
	s      *Store
	listed []listedTask // the tasks that have a place in a list
}

func (to *restoring) read(r io.Reader) error {
	trailer, err := readRecords(r, to.header, to.s.SetRule, to.take)
	if err != nil {
		return err
	}
	to.lists()
	if sum := to.s.Hash(); sum != trailer.Sum {
		return fmt.Errorf("its tasks hash to %x where its trailer says %x", sum, trailer.Sum)
	}
	return nil
}

// take adds a task. Its place in a list follows after the last task.
func (to *restoring) take(t *fsmpb.SnapshotTask) error {
	h, err := to.task(t)
	if err != nil {
		return err
	}
	if t.Parked || t.Idle {
		to.s.Moves.addIdle(h)
	}
	switch n := to.s.mem.tasks.Read(h).progress; {
	case n == 0:
	case t.Idle:
		to.s.mem.progress.Write(n).order = t.Order
	default:
		to.listed = append(to.listed, listedTask{h, t.Order, t.Isolated})
	}
	return nil
}

func (to *restoring) header(header *fsmpb.SnapshotHeader) error {
	if err := checkHeader(header); err != nil {
		return err
	}
	if header.Shard != to.s.shard {
		return fmt.Errorf("it is of shard %d", header.Shard)
	}
	to.s.Version = max(header.Version, FirstVersion)
	to.s.Number, to.s.NowMs = header.Number, header.NowMs
	to.s.Origins = Origins{header.Origin, header.Inherited}
	to.s.Defaults = Defaults{header.TombstoneBytes, header.HorizonMs, header.KeepDoneMs}
	to.s.wheel = wheel.New(nodes{to.s.mem.tasks}, header.PositionMs)
	for _, l := range header.Isolated {
		to.s.Lanes.Isolate(task.Lane{Namespace: l.Namespace, Queue: l.Queue, Destination: l.Destination, Path: l.Path})
	}
	return to.moves(header)
}

// moves restores the states of the slots.
func (to *restoring) moves(header *fsmpb.SnapshotHeader) (err error) {
	if to.s.Slots, err = slots.TableOf(header.Slots); err != nil {
		return err
	}
	if c := header.Coming; c != nil {
		to.s.Moves.coming = &coming{move: c.Move, tasks: c.Tasks, sum: c.Sum, keepsNumbers: c.KeepsNumbers, pending: &dues{}}
	}
	return nil
}

func checkHeader(header *fsmpb.SnapshotHeader) error {
	switch {
	case header.Version > Version:
		return fmt.Errorf("command version %d, and this build knows %d at most: upgrade this node",
			header.Version, Version)
	case header.Number > wheel.MaxSeq || header.NowMs < 0:
		return errors.New("header has a number out of range")
	}
	return nil
}

func (to *restoring) task(t *fsmpb.SnapshotTask) (handle, error) {
	if err := to.checkTask(t); err != nil {
		return 0, err
	}
	task := t.Task
	spec := task.Spec
	if spec == nil {
		spec = &fsmpb.Spec{}
	}
	content := Content{
		Spec: spec, CreatedMs: task.CreatedAtMs, Occurrence: task.Occurrence, DelayMs: NoDelay, Series: task.Series,
	}
	if t.DelayMs != nil {
		content.DelayMs = *t.DelayMs
	}
	c := to.s.mem.newCold(task.Namespace, &content)
	keys := rememberedIn(t.Remembered)
	if len(keys) > 0 {
		c.takeFirst(&keys[0], task.FireAtMs)
	}
	at := to.s.PlaceOf(task.Namespace, task.Id)
	h := to.s.add(at, task.Namespace, task.Id, &c)
	if task.State != fsmpb.State_STATE_SCHEDULED || t.WheelSeq != task.Revision || t.WheelDueMs != task.FireAtMs {
		to.progress(h, task, t.Isolated)
	}
	if t.InWheel || t.Parked {
		to.s.wheel.Insert(h, t.WheelDueMs, t.WheelSeq)
		to.s.mem.tasks.Write(h).waits = true
	}
	if t.Parked {
		Edit{Task{to.s, h}}.StopWaiting() // keeps the instant and the number
		to.s.mem.tasks.Write(h).parked = true
	}
	to.s.dues.add(dueKeysOf(Task{to.s, h}), at.slot, h)
	if len(keys) > 0 {
		Edit{Task{to.s, h}}.putKeys(keys)
		to.s.sum += to.s.mem.keysDigest(to.s.mem.tasks.Read(h))
	}
	if task.Series != nil {
		to.s.Schedules.note(h, task.Series)
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

func (to *restoring) checkTask(t *fsmpb.SnapshotTask) error {
	task := t.GetTask()
	switch {
	case task.GetId() == "":
		return errors.New("has no id")
	case task.State < fsmpb.State_STATE_SCHEDULED || task.State >= states:
		return fmt.Errorf("%q is in state %d, which there is not", task.Id, task.State)
	case (task.State == fsmpb.State_STATE_REPEATING) != (task.Series != nil):
		return fmt.Errorf("%q is a schedule without a rule, or a task with one", task.Id)
	case task.State == fsmpb.State_STATE_SCHEDULED && !t.InWheel && !t.Parked:
		return fmt.Errorf("%q is scheduled and in no wheel", task.Id)
	case task.CreatedAtMs>>48 != 0 || t.GetDelayMs() < 0 || t.WheelSeq > to.s.Number || task.Occurrence > to.s.Number:
		return fmt.Errorf("%q has a number out of range", task.Id)
	case (t.Parked || t.Idle) && to.s.Slots.IsOpen(to.s.PlaceOf(task.Namespace, task.Id).slot) || t.Parked && t.InWheel:
		return fmt.Errorf("%q does not wait in the wheel or in its list, and its slot is open", task.Id)
	case to.s.Find(task.Namespace, task.Id).Exists():
		return fmt.Errorf("%q is there twice", task.Id)
	}
	return nil
}

func (to *restoring) progress(h handle, task *fsmpb.Task, isolated bool) {
	p := to.s.mem.progressOf(h)
	p.fireAt, p.fence, p.attempts = task.FireAtMs, task.Fence, task.Attempts
	p.outcome = uint8(task.Outcome)
	to.s.mem.putHistory(p, historyOf(task))
	Edit{Task{to.s, h}}.SetState(task.State)
	p.revision = task.Revision
	p.leased = task.Leased && task.State == fsmpb.State_STATE_FIRING
	if task.State == fsmpb.State_STATE_RETRYING {
		name, _ := to.lane(h, isolated)
		Edit{Task{to.s, h}}.countRetry(name)
	}
}

type listedTask struct {
	h        handle
	order    int64
	isolated bool // in a lane of its path
}

// lists puts begun tasks back into their lists, in their former order.
func (to *restoring) lists() {
	slices.SortFunc(to.listed, func(a, b listedTask) int { return cmp.Compare(a.order, b.order) })
	for _, t := range to.listed {
		e := Edit{Task{to.s, t.h}}
		switch e.State() {
		case fsmpb.State_STATE_READY:
			name, priority := to.lane(t.h, t.isolated)
			e.wait(to.s.Lanes.open(name), priority, t.order)
		case fsmpb.State_STATE_FIRING:
			name, _ := to.lane(t.h, t.isolated)
			l := to.s.Lanes.open(name)
			e.join(l)
			l.firing.pushBack(to.s.mem.links(), t.h, t.order)
		case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
			e.joinTombstones(t.order)
		}
	}
	to.s.Lanes.Settle(false)
	to.land()
}

// lane returns the name of the lane that a task was in, and the task's priority. A task may have come before its path
// was isolated.
func (to *restoring) lane(h handle, isolated bool) (name task.Lane, priority int) {
	name, path, priority := to.s.mem.laneAndPathOf(to.s.mem.tasks.Read(h))
	if isolated && to.s.Lanes.isolation.has(name.Destined(), path) {
		name.Path = path
	}
	return name, priority
}

// land adds every record to the state hash after all records are complete.
func (to *restoring) land() {
	for slot := uint32(0); slot < task.Slots; slot++ {
		coming := to.s.Moves.coming
		isCopy := coming != nil && !to.s.Slots.IsOpen(slot) && to.s.Slots.At(slot).Move == coming.move
		for h := range to.s.index.Each(slot) {
			to.s.land(h, to.s.mem.identityOf(slot, h))
			if isCopy {
				to.s.Moves.countCopy(h, 1)
			}
		}
	}
}

// readRecords reads a snapshot. It calls begin with the header, rule with each rule and add with each task, whose
// messages are valid until the call returns. It compares the number of tasks with the trailer, and returns the trailer.
func readRecords(r io.Reader, begin func(*fsmpb.SnapshotHeader) error, rule func(*fsmpb.QueueRule),
	add func(*fsmpb.SnapshotTask) error) (*fsmpb.SnapshotTrailer, error) {
	in := newSnapshotReader(r)
	var header fsmpb.SnapshotHeader
	if err := in.get(&header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if err := begin(&header); err != nil {
		return nil, err
	}
	var rec fsmpb.SnapshotRecord
	for tasks := uint64(0); ; {
		rec.ResetVT()
		if err := in.get(&rec); err != nil {
			return nil, fmt.Errorf("after %d tasks: %w", tasks, err)
		}
		switch rec := rec.Record.(type) {
		case *fsmpb.SnapshotRecord_Rule:
			rule(rec.Rule)
		case *fsmpb.SnapshotRecord_Task:
			tasks++
			if err := add(rec.Task); err != nil {
				return nil, fmt.Errorf("task %d: %w", tasks, err)
			}
		case *fsmpb.SnapshotRecord_Trailer:
			if n := rec.Trailer.Tasks; n != tasks {
				return nil, fmt.Errorf("has %d tasks where its trailer says %d", tasks, n)
			}
			return rec.Trailer, nil
		default:
			return nil, fmt.Errorf("after %d tasks: a record of a kind unknown to this build: upgrade this node", tasks)
		}
	}
}

// snapshotReader reads messages, each preceded by its length.
type snapshotReader struct {
	from   *bufio.Reader
	record []byte // the last record, which its message points into
}

func newSnapshotReader(r io.Reader) *snapshotReader {
	return &snapshotReader{from: bufio.NewReaderSize(r, 256<<10)}
}

// get reads the next message. The message is valid until the next call, so the caller copies the parts that it keeps.
func (s *snapshotReader) get(m interface{ UnmarshalVTUnsafe(b []byte) error }) error {
	size, err := binary.ReadUvarint(s.from)
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF // a snapshot ends with its trailer
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
