package fsm

import (
	"bytes"
	"math"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// failer is a *testing.T, B, F or a *rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// restored returns a machine restored from a snapshot of m.
func restored(t failer, m *Machine) *Machine {
	t.Helper()
	return restoredFrom(t, m.Snapshot(), m.shard)
}

func restoredFrom(t failer, snapshot *Snapshot, shard uint32) *Machine {
	t.Helper()
	defer snapshot.Release()
	var buf bytes.Buffer
	if _, err := snapshot.WriteTo(&buf); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	fresh := New(shard)
	if err := fresh.Restore(&buf); err != nil {
		t.Fatalf("restore: %v", err)
	}
	return fresh
}

// audit walks the whole state and checks what must always hold: the incremental hash and counts are those of a full
// walk, every begun task is in exactly the list that its state names, and the wheel holds exactly those that wait.
func audit(t failer, m *Machine) {
	t.Helper()
	a := auditor{t: t, m: m, listed: map[handle]string{}, queues: map[queueKey]queueTally{}, uses: map[queueKey]int{}, slots: make(slotCounts, task.Slots), dues: map[queueKey]map[int64]int{}, manners: map[uint32]int{}}
	a.walkLists()
	a.walkTasks()
	if a.sum != m.sum {
		t.Errorf("the hash kept is %x, that of a full walk %x", m.sum, a.sum)
	}
	if a.counts != m.counts {
		t.Errorf("counts kept are %v, those of a full walk %v", m.counts, a.counts)
	}
	a.checkQueues()
	for n, uses := range m.manners.refs {
		if uint32(a.manners[uint32(n)]) != uses {
			t.Errorf("manner %d is used by %d tasks, and counted %d times", n, a.manners[uint32(n)], uses)
		}
	}
	if !slices.Equal(a.slots, m.slots) {
		t.Errorf("the counts by slot are not those of a full walk")
	}
	if a.waiting != m.wheel.Len() {
		t.Errorf("%d tasks wait, and the wheel holds %d", a.waiting, m.wheel.Len())
	}
	if a.bytes != m.tombstoneBytes {
		t.Errorf("tombstone bytes kept are %d, those of a full walk %d", m.tombstoneBytes, a.bytes)
	}
}

type auditor struct {
	t       failer
	m       *Machine
	listed  map[handle]string
	counts  byState
	slots   slotCounts
	dues    map[queueKey]map[int64]int // by second
	sum     uint64
	waiting int
	bytes   int64
	queues  map[queueKey]queueTally
	uses    map[queueKey]int
	manners map[uint32]int
}

func (a *auditor) walkLists() {
	a.walkList("tombstones", &a.m.tombstones)
	for n, l := range a.m.lanes.lanes {
		if l == nil {
			continue
		}
		if a.m.lanes.numbers[l.Lane] != uint32(n) {
			a.t.Errorf("lane %v is not found by its name", l.Lane)
		}
		if l.ready.len+l.firing.len == 0 {
			a.t.Errorf("lane %v is empty and still open", l.Lane)
		}
		a.uses[l.queue.queueKey]++
		a.walkList("ready", &l.ready)
		a.walkList("firing", &l.firing)
	}
}

func (a *auditor) walkList(name string, l *list) {
	n, last := 0, handle(0)
	for h := l.head; h != 0; h = a.m.links().read(h).next {
		p := a.m.links().read(h)
		if p.prev != last {
			a.t.Errorf("%s: the list is torn at task %d", name, h)
		}
		if last != 0 && a.m.links().read(last).order >= p.order {
			a.t.Errorf("%s: order does not rise", name)
		}
		if a.listed[h] != "" {
			a.t.Errorf("task %d is in %s and in %s", h, a.listed[h], name)
		}
		a.listed[h] = name
		last = h
		n++
	}
	if n != l.len || last != l.tail {
		a.t.Errorf("%s: has %d tasks, and says %d", name, n, l.len)
	}
}

func (a *auditor) walkTasks() {
	for slot := range uint32(task.Slots) {
		for h := range a.m.index.Each(slot) {
			a.walkTask(slot, h)
		}
	}
}

func (a *auditor) walkTask(slot uint32, h handle) {
	m := a.m
	r := m.tasks.Read(h)
	namespace, id := m.idOf(r)
	if m.find(namespace, id) != h || task.Slot(namespace, id) != slot {
		a.t.Errorf("%q is not found by its id", id)
	}
	a.counts[r.state]++
	if !r.is(fsmpb.State_STATE_SCHEDULED) {
		a.slots[slot][r.state]++
	}
	c := readCold(m.blobs.Get(r.cold))
	if c.manner != 0 {
		a.manners[c.manner]++
	}
	a.countQueue(r, &c)
	a.sum += m.digest(h) + m.digestCold(r, &c)
	if keys := m.keysOf(nil, r); len(keys) > 0 {
		a.sum += m.digestKeys(r, keys)
	}
	if r.waits {
		a.waiting++
	}
	if r.waits != r.Linked() {
		a.t.Errorf("%q: waits is %v, and in the wheel is %v", id, r.waits, r.Linked())
	}
	a.checkState(id, h, r)
}

func (a *auditor) checkState(id string, h handle, r *record) {
	want := map[fsmpb.State]string{
		fsmpb.State_STATE_READY: "ready", fsmpb.State_STATE_FIRING: "firing",
		fsmpb.State_STATE_DELIVERED: "tombstones", fsmpb.State_STATE_CANCELLED: "tombstones",
	}[fsmpb.State(r.state)]
	if a.listed[h] != want {
		a.t.Errorf("%q is %s and in the list %q", id, stateName(fsmpb.State(r.state)), a.listed[h])
	}
	if scheduled := r.is(fsmpb.State_STATE_SCHEDULED); scheduled != (r.progress == 0) {
		a.t.Errorf("%q is %s and has progress record %d", id, stateName(fsmpb.State(r.state)), r.progress)
	}
	if r.progress == 0 {
		return
	}
	p := a.m.progress.Read(r.progress)
	a.bytes += int64(p.size)
	if p.fence > a.m.number || p.revision > a.m.number {
		a.t.Errorf("%q: fence %d or revision %d is beyond the counter %d", id, p.fence, p.revision, a.m.number)
	}
}

// queueTally is what a walk finds of one queue.
type queueTally struct {
	tasks  byState
	leased int
}

// checkQueues holds what is kept of each queue against a full walk.
func (a *auditor) checkQueues() {
	rules := 0
	for n, q := range a.m.queues.list {
		if q == nil {
			continue
		}
		if a.m.queues.numbers[q.queueKey] != uint32(n) || q.number != uint32(n) {
			a.t.Errorf("queue %v is not found by its name", q.queueKey)
		}
		if got := (queueTally{q.tasks, q.leased}); got != a.queues[q.queueKey] {
			a.t.Errorf("queue %v: counts kept are %v, those of a full walk %v", q.queueKey, got, a.queues[q.queueKey])
		}
		a.checkDues(q)
		a.checkOverdue(q)
		uses := a.uses[q.queueKey]
		if n == 0 {
			uses++
		}
		if q.rule != noRule {
			uses++
			rules++
		}
		if q.uses != uses {
			a.t.Errorf("queue %v has %d uses, and counts %d", q.queueKey, uses, q.uses)
		}
		delete(a.queues, q.queueKey)
	}
	if rules != a.m.queues.rules || len(a.queues) != 0 {
		a.t.Errorf("%d rules, and %d are kept; queues not kept: %v", rules, a.m.queues.rules, a.queues)
	}
}

// countQueue counts a task for its queue, found by another way than the machine does.
func (a *auditor) countQueue(r *record, c *cold) {
	namespace, _ := a.m.idOf(r)
	key := queueKey{namespace, a.m.specOf(c, false).Queue}
	tally := a.queues[key]
	tally.tasks[r.state]++
	if r.progress != 0 && a.m.progress.Read(r.progress).leased {
		tally.leased++
	}
	a.queues[key] = tally
	if r.is(fsmpb.State_STATE_SCHEDULED) || r.is(fsmpb.State_STATE_RETRYING) {
		if a.dues[key] == nil {
			a.dues[key] = map[int64]int{}
		}
		a.dues[key][dueSecond(r.Due())]++
	}
	a.uses[key]++
}

func (a *auditor) checkDues(q *queue) {
	seconds := a.dues[q.queueKey]
	for level, span := range dueSpans {
		steps := map[int64]int{}
		for second, n := range seconds {
			steps[second/span] += n
		}
		for step, n := range steps {
			if got := q.dues.counts[level].Count(uint32(step)); int(got) != n {
				a.t.Errorf("queue %v: %d tasks are due in step %d of %d s, and %d are kept", q.queueKey, n, step, span, got)
			}
		}
		if got := q.dues.counts[level].Len(); got != len(steps) {
			a.t.Errorf("queue %v: tasks are due in %d steps of %d s, and %d are kept", q.queueKey, len(steps), span, got)
		}
	}
}

// checkOverdue holds a queue's heap of lanes against the lanes.
func (a *auditor) checkOverdue(q *queue) {
	oldest, n := int64(math.MaxInt64), 0
	for _, l := range a.m.lanes.lanes {
		if l != nil && l.queue == q && l.ready.len > 0 {
			n++
			oldest = min(oldest, a.m.links().read(l.ready.head).fireAt)
		}
	}
	if n != len(q.waiting) || n > 0 && q.waiting[0].overdue != oldest {
		a.t.Errorf("queue %v: %d lanes wait since %d, and the heap has %d", q.queueKey, n, oldest, len(q.waiting))
	}
}
