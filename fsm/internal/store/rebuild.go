package store

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// Rebuild builds the store of one shard from tasks in other shards' snapshots. The tasks keep their revisions, fences,
// occurrences, webhook ids and remembered keys. Numbers of two shards may be equal, so the store's counter begins above
// all of them, and Store orders tasks anew that would be equal in the wheel or in a list.
type Rebuild struct {
	to      restoring
	sources int
}

// NewRebuild begins a store. The rules are those of the queues' policies. No task is due before positionMs unless it
// waits already.
func NewRebuild(shard uint32, rules []*fsmpb.QueueRule, positionMs int64) *Rebuild {
	s := New(shard)
	for s.Origins.Own == 0 {
		s.Origins.Own = rand.Uint64()
	}
	for _, r := range rules {
		s.SetRule(r)
	}
	s.wheel = wheel.New(nodes{s.mem.tasks}, positionMs)
	return &Rebuild{to: restoring{s: s}}
}

// From begins the tasks of another shard, whose snapshot begins with header. All of them lie in the ranges of slots,
// and no other shard has tasks there.
func (b *Rebuild) From(header *fsmpb.SnapshotHeader, ranges []slots.Range) error {
	if err := checkHeader(header); err != nil {
		return err
	}
	s := b.to.s
	b.sources++
	s.Version = max(s.Version, header.Version)
	s.Number, s.NowMs = max(s.Number, header.Number), max(s.NowMs, header.NowMs)
	s.HorizonMs = max(s.HorizonMs, header.HorizonMs)
	s.KeepDoneMs = cmp.Or(header.KeepDoneMs, s.KeepDoneMs)
	for _, r := range ranges {
		s.Origins.inherit(r, Origins{header.Origin, header.Inherited}, header.Number)
	}
	return nil
}

// Add adds a task of the shard that From named last. It keeps no part of the message. A task that rests in a slot on
// the move returns to the wheel and to its list.
func (b *Rebuild) Add(t *fsmpb.SnapshotTask) error {
	wakeMessage(t)
	return b.to.take(t)
}

// Store returns the store after the last task. The Rebuild must not be used afterwards.
func (b *Rebuild) Store() *Store {
	s := b.to.s
	s.Origins.sort()
	b.orderLists()
	if b.sources > 1 {
		b.orderTies()
	}
	b.to.lists()
	return s
}

// orderLists gives each task in a list a place of its own. Tasks of different shards take turns.
func (b *Rebuild) orderLists() {
	listed := b.to.listed
	slices.SortStableFunc(listed, func(a, b listedTask) int { return cmp.Compare(a.order, b.order) })
	for i := range listed {
		listed[i].order = int64(i)
	}
	b.to.s.Number = max(b.to.s.Number, uint64(len(listed)))
}

// orderTies gives a number of its own to each task that has the due time and the number of another one in the wheel.
// Replicas could otherwise pop the two in different orders. The task's revision stays.
func (b *Rebuild) orderTies() {
	s := b.to.s
	var tied []handle
	waiting := b.waiting()
	slices.SortStableFunc(waiting, s.mem.compareDue)
	for i, h := range waiting {
		if i > 0 && s.mem.compareDue(waiting[i-1], h) == 0 {
			tied = append(tied, h)
		}
	}
	for _, h := range tied {
		if r := s.mem.tasks.Read(h); r.progress == 0 {
			s.mem.progressOf(h).revision = r.Seq()
		}
		s.Number++
		s.wheel.Reschedule(h, s.mem.tasks.Read(h).Due(), s.Number)
	}
}

// waiting returns the tasks in the wheel, by slot.
func (b *Rebuild) waiting() []handle {
	s := b.to.s
	all := make([]handle, 0, s.mem.tasks.Len())
	for slot := range uint32(task.Slots) {
		for h := range s.index.Each(slot) {
			if s.mem.tasks.Read(h).waits {
				all = append(all, h)
			}
		}
	}
	return all
}

func (m *memory) compareDue(a, b handle) int {
	x, y := m.tasks.Read(a), m.tasks.Read(b)
	return cmp.Or(cmp.Compare(x.Due(), y.Due()), cmp.Compare(x.Seq(), y.Seq()))
}

// ReadHeader reads the header of a snapshot. It may read on behind the header.
func ReadHeader(r io.Reader) (*fsmpb.SnapshotHeader, error) {
	header := &fsmpb.SnapshotHeader{}
	if err := newSnapshotReader(r).get(header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return header, checkHeader(header)
}

// ReadTasks reads a snapshot without building its store. It calls begin with the header and then add with each task,
// whose message is valid until add returns. It compares the number of tasks with the trailer, but not the state hash.
func ReadTasks(r io.Reader, begin func(*fsmpb.SnapshotHeader) error, add func(*fsmpb.SnapshotTask) error) error {
	_, err := readRecords(r, begin, func(*fsmpb.QueueRule) {}, add)
	return err
}
