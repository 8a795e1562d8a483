package store

import (
	"math"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
)

// Tasks are counted for the shard, for their namespace, for their queue and for their slot. The shard and each queue
// also count their tasks by due time. The counts change together with the state hash: lift subtracts a task, land adds
// it again after the change.

// states is the number of states, with the unspecified one.
const states = fsmpb.State_STATE_REPEATING + 1

// byState counts tasks; it is indexed by fsmpb.State.
type byState [states]int

// tally adds n, 1 or -1, to all counts that the task belongs to in its present state.
func (s *Store) tally(r *record, slot uint32, n int) {
	q, held := s.mem.queueAndBytes(r)
	s.counts[r.state] += n
	if r.waitsForAttempt() {
		s.pending.add(r.Due(), n)
	}
	q.add(&s.mem, r, n)
	q.space.add(r.state, held, n)
	if !r.is(fsmpb.State_STATE_SCHEDULED) {
		s.bySlot.count(slot, r.state, n)
	}
}

// queueCounts counts the tasks of a queue.
type queueCounts struct {
	tasks  byState
	leased int  // the part of the firing tasks
	dues   dues // of the tasks that wait for an attempt
}

func (c *queueCounts) add(m *memory, r *record, n int) {
	c.tasks[r.state] += n
	switch {
	case r.waitsForAttempt():
		c.dues.add(r.Due(), n)
	case r.is(fsmpb.State_STATE_FIRING) && m.progress.Read(r.progress).leased:
		c.leased += n
	}
}

// slotCounts counts, by slot and state, the tasks that are not scheduled. Scheduled tasks are left out because most
// tasks are scheduled, and a list of them reads most slots anyway.
type slotCounts [][states]uint32

func (c slotCounts) count(slot uint32, state uint8, n int) {
	held := &c[slot][state]
	*held = uint32(int(*held) + n)
}

// mayHold reports whether a slot may hold a task in one of these states. No states means any state.
func (c slotCounts) mayHold(slot uint32, states []fsmpb.State) bool {
	if len(states) == 0 {
		return true
	}
	for _, state := range states {
		if state == fsmpb.State_STATE_SCHEDULED || state >= 0 && int(state) < len(c[slot]) && c[slot][state] > 0 {
			return true
		}
	}
	return false
}

// Counts returns the counts of a queue at nowMs. Its cost does not depend on the number of tasks. Counts by due
// time are exact to within two seconds, and include tasks that have been due for less than a day and are still in the
// wheel.
func (qs *Queues) Counts(namespace, queue string, nowMs int64) *fsmpb.QueueCounts {
	key := keyOfQueue(namespace, queue)
	counts := &fsmpb.QueueCounts{Namespace: key.namespace, Queue: key.name}
	q := qs.Find(key)
	if q == nil {
		return counts
	}
	q.countStates(counts)
	q.countDues(counts, nowMs)
	if len(q.waiting) > 0 {
		counts.OldestOverdueMs, counts.OldestPulled = q.waiting[0].overdue, q.waiting[0].Pulled()
	}
	return counts
}

func (q *queue) countStates(counts *fsmpb.QueueCounts) {
	counts.Scheduled = q.in(fsmpb.State_STATE_SCHEDULED)
	counts.Ready = q.in(fsmpb.State_STATE_READY)
	counts.Leased = q.inLease()
	counts.Firing = q.in(fsmpb.State_STATE_FIRING) - counts.Leased
	counts.Retrying = q.in(fsmpb.State_STATE_RETRYING)
	counts.Delivered = q.in(fsmpb.State_STATE_DELIVERED)
	counts.Dead = q.in(fsmpb.State_STATE_DEAD)
	counts.Cancelled = q.in(fsmpb.State_STATE_CANCELLED)
}

func (q *queue) countDues(counts *fsmpb.QueueCounts, nowMs int64) {
	counts.Due_1M, counts.Due_1H = q.dueSoon(nowMs)
	counts.Due_1D = counts.Due_1H + q.due(nowMs+hourMs, nowMs+dayMs)
}

const minuteMs, hourMs, dayMs = 60_000, 3_600_000, 86_400_000

// dueSoon returns the numbers of tasks that come due within a minute and within an hour.
func (q *queue) dueSoon(nowMs int64) (minute, hour uint64) {
	minute = q.due(nowMs-dayMs, nowMs+minuteMs)
	return minute, minute + q.due(nowMs+minuteMs, nowMs+hourMs)
}

// The counts of a queue leave out its copies. The copies of slots that are being opened stay left out until all are
// open, so the numbers may be a little too low meanwhile.

func (q *queue) in(state fsmpb.State) uint64 {
	n := q.tasks[state]
	if q.copies != nil {
		n = max(0, n-q.copies.tasks[state])
	}
	return uint64(n)
}

func (q *queue) inLease() uint64 {
	n := q.leased
	if q.copies != nil {
		n = max(0, n-q.copies.leased)
	}
	return min(uint64(n), q.in(fsmpb.State_STATE_FIRING))
}

func (q *queue) due(fromMs, toMs int64) uint64 {
	n := q.dues.sum(fromMs, toMs)
	if q.copies != nil {
		n -= min(n, q.copies.dues.sum(fromMs, toMs))
	}
	return n
}

// dues counts tasks by due time, in short steps and in two longer ones. The tasks of a day are therefore summed up in
// about a hundred and fifty look-ups, however many they are. Only steps with a task take memory. Shorter steps would
// be finer, but their counters would no longer fit the processor's cache, and each schedule would pay for that.
type dues struct {
	counts [len(dueSpans)]slab.Counter
}

// dueSpans are the lengths of the steps, in seconds. Each divides the next.
var dueSpans = [...]int64{4, 128, 4096}

// add adds n, 1 or -1, to the count of tasks that come due at dueMs, in Unix milliseconds.
func (d *dues) add(dueMs int64, n int) {
	second := dueSecond(dueMs)
	for i, span := range dueSpans {
		d.counts[i].Add(uint32(second/span), n)
	}
}

// dueSecond returns the Unix second that an instant counts for. All instants after the year 2106 count for the same
// one.
func dueSecond(ms int64) int64 { return min(max(ms/1000, 0), math.MaxUint32) }

// sum returns the number of tasks that come due in [fromMs, toMs), both rounded to the nearest short step.
func (d *dues) sum(fromMs, toMs int64) uint64 {
	if d.counts[0].Len() == 0 {
		return 0
	}
	span := dueSpans[0]
	nearest := func(ms int64) int64 { return (dueSecond(ms) + span/2) / span * span }
	return d.sumBy(len(dueSpans)-1, nearest(fromMs), nearest(toMs))
}

// sumBy counts the tasks of the seconds [from, to): in steps of this level as far as whole ones fit, the rest in
// shorter ones.
func (d *dues) sumBy(level int, from, to int64) uint64 {
	if from >= to {
		return 0
	}
	span := dueSpans[level]
	first, end := (from+span-1)/span, to/span
	if first >= end {
		return d.sumBy(level-1, from, to)
	}
	var n uint64
	for step := first; step < end; step++ {
		n += uint64(d.counts[level].Count(uint32(step)))
	}
	return n + d.sumBy(level-1, from, first*span) + d.sumBy(level-1, end*span, to)
}

// Counts holds the numbers of tasks, lanes and bytes of a store. Reading them costs the same at any size.
type Counts struct {
	ByState [states]int // indexed by fsmpb.State
	Tasks   int         // tombstones included
	Lanes   int         // lanes with a task in them
	Bytes   int64       // memory of tasks, blobs, indexes and queues
	Free    int64       // the free part of Bytes, for new tasks
	Coming  int64       // beside Bytes: memory that tasks may take when they come due
}

// comingBytes is the memory that a task takes from the moment it comes due, in addition to its own. It is the task's
// progress, of 64 bytes, and a short history of one attempt once an attempt has ended.
const comingBytes = 64 + 64

// Counts returns the counts of the store.
func (s *Store) Counts() Counts {
	return Counts{
		ByState: s.counted(),
		Tasks:   s.mem.tasks.Len() - s.Moves.coming.count(),
		Lanes:   len(s.Lanes.numbers),
		Bytes: s.mem.tasks.Bytes() + s.mem.progress.Bytes() + s.mem.blobs.Bytes() + s.index.Bytes() +
			s.labels.Bytes() + s.dues.places.bytes() + s.mem.queues.bytes(),
		Free:   s.mem.tasks.FreeBytes() + s.mem.progress.FreeBytes() + s.mem.blobs.FreeBytes(),
		Coming: int64(s.mem.tasks.Len()-s.mem.progress.Len()) * comingBytes,
	}
}
