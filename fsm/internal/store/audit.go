package store

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
)

// Audit walks the whole state and returns an error for each broken invariant. The hash and the counts must equal those
// of a full walk, every begun task must be in exactly the list that its state names, and the wheel must hold exactly
// the waiting tasks. Audit is for tests: no other code has the time.
func (s *Store) Audit() error {
	a := auditor{
		s: s, listed: map[handle]string{}, queueTallies: map[queueKey]queueTally{}, uses: map[queueKey]int{},
		slots: make(slotCounts, task.Slots), dues: map[queueKey]map[int64]int{}, pending: map[int64]int{},
		manners: map[uint32]int{}, wheel: map[wheelKey]bool{}, spaces: map[string]*namespace{},
		labels: map[labelKey][]handle{}, retrying: map[task.Lane]int{},
	}
	a.walkLists()
	a.walkTasks()
	a.checkSums()
	a.checkQueues()
	a.checkNamespaces()
	a.checkManners()
	a.checkCopies()
	a.checkLabels()
	a.checkDueIndex()
	a.checkRetrying()
	return errors.Join(a.errs...)
}

func (a *auditor) checkSums() {
	if a.sum != a.s.sum {
		a.breach("the hash kept is %x, that of a full walk %x", a.s.sum, a.sum)
	}
	if a.counts != a.s.counts {
		a.breach("counts kept are %v, those of a full walk %v", a.s.counts, a.counts)
	}
	if !slices.Equal(a.slots, a.s.bySlot) {
		a.breach("the counts by slot are not those of a full walk")
	}
	if a.waiting != a.s.wheel.Len() {
		a.breach("%d tasks wait, and the wheel holds %d", a.waiting, a.s.wheel.Len())
	}
	if a.bytes != a.s.tombstoneBytes {
		a.breach("tombstone bytes kept are %d, those of a full walk %d", a.s.tombstoneBytes, a.bytes)
	}
}

func (a *auditor) checkManners() {
	for n, v := range a.s.mem.manners.values {
		uses := uint32(0)
		if v != nil {
			uses = v.uses
		}
		if found := a.manners[uint32(n)]; uint32(found) != uses {
			a.breach("manner %d is used by %d tasks, and counted %d times", n, found, uses)
		}
	}
}

// checkCopies compares the copies of a move with those counted. It leaves out moves whose slots are being opened or
// dropped.
func (a *auditor) checkCopies() {
	c := a.s.Moves.coming
	if c == nil {
		for _, q := range a.s.mem.queues.values {
			if q != nil && q.copies != nil {
				a.breach("queue %v counts copies, and no slot is coming", q.queueKey)
			}
		}
		return
	}
	walked, pending := coming{move: c.move, keepsNumbers: c.keepsNumbers, pending: c.pending}, map[int64]int{}
	for _, p := range a.s.Slots.Parts() {
		switch {
		case p.Move != c.move:
		case p.Phase == fsmpb.SlotPhase_SLOT_PHASE_COMING, p.Phase == fsmpb.SlotPhase_SLOT_PHASE_READY:
			a.walkCopies(&walked, pending, p.Range)
		default:
			return
		}
	}
	if walked != *c {
		a.breach("the copies kept are %+v, those of a full walk %+v", *c, walked)
	}
	a.checkDues("the copies", pending, c.pending)
}

func (a *auditor) walkCopies(walked *coming, pending map[int64]int, r slots.Range) {
	for slot := r.First; slot < r.End; slot++ {
		for h := range a.s.index.Each(slot) {
			walked.tasks++
			walked.sum += a.s.mem.contentDigest(h)
			r := a.s.mem.tasks.Read(h)
			walked.states[r.state]++
			if r.waitsForAttempt() {
				pending[dueSecond(r.Due())]++
			}
		}
	}
}

// checkRetrying compares the retrying tasks of groups with those that their lanes count.
func (a *auditor) checkRetrying() {
	for _, l := range a.s.Lanes.values {
		if l != nil && l.retrying != a.retrying[l.Lane] {
			a.breach("lane %v counts %d retrying tasks, and has %d", l.Lane, l.retrying, a.retrying[l.Lane])
		}
	}
	for name, n := range a.retrying {
		if a.s.Lanes.Find(name) == nil {
			a.breach("lane %v is not open, and has %d retrying tasks", name, n)
		}
	}
}

func (a *auditor) breach(format string, args ...any) {
	a.errs = append(a.errs, fmt.Errorf(format, args...))
}

type auditor struct {
	s            *Store
	errs         []error
	listed       map[handle]string
	counts       byState
	slots        slotCounts
	dues         map[queueKey]map[int64]int // by the instant in seconds
	pending      map[int64]int              // the same, of all queues
	sum          uint64
	waiting      int
	bytes        int64
	wheel        map[wheelKey]bool
	queueTallies map[queueKey]queueTally
	uses         map[queueKey]int
	manners      map[uint32]int
	spaces       map[string]*namespace
	labels       map[labelKey][]handle
	due          int               // places in the index of due times, by a full walk
	retrying     map[task.Lane]int // tasks of groups and isolated paths
}

func (a *auditor) walkLists() {
	a.walkList("tombstones", &a.s.tombstones)
	for n, l := range a.s.Lanes.values {
		if l == nil {
			continue
		}
		if a.s.Lanes.numbers[l.Lane] != uint32(n) {
			a.breach("lane %v is not found by its name", l.Lane)
		}
		if !l.hasTasks() && !l.isolated {
			a.breach("lane %v is empty and still open", l.Lane)
		}
		isolated := a.s.Lanes.isolation.has(l.Destined(), l.Path)
		if l.isolated != (isolated && l.Group == "") || isolated != (l.Path != "") {
			a.breach("lane %v: isolated is %v", l.Lane, l.isolated)
		}
		a.uses[l.queue.queueKey]++
		a.walkList("ready", &l.fresh)
		a.walkList("ready", &l.retried)
		a.walkRanked(l)
		a.walkList("firing", &l.firing)
	}
}

func (a *auditor) walkList(name string, l *list) {
	n, last := 0, handle(0)
	for h := l.head; h != 0; h = a.s.mem.links().read(h).next {
		p := a.s.mem.links().read(h)
		if p.prev != last {
			a.breach("%s: the list is torn at task %d", name, h)
		}
		if last != 0 && a.s.mem.links().read(last).order >= p.order {
			a.breach("%s: order does not rise", name)
		}
		if a.listed[h] != "" {
			a.breach("task %d is in %s and in %s", h, a.listed[h], name)
		}
		a.listed[h] = name
		last = h
		n++
	}
	if n != l.len || last != l.tail {
		a.breach("%s: has %d tasks, and says %d", name, n, l.len)
	}
}

// walkRanked compares the ranks of a lane with its tasks.
func (a *auditor) walkRanked(l *Lane) {
	if l.ranked.ranks == nil {
		return
	}
	var counts [task.LastPriority]int32
	l.ranked.ranks.Ascend(func(r rank) bool {
		if kept := l.rankOf(r.task, a.s.mem.links().read(r.task)); kept != r {
			a.breach("task %d of lane %v has the rank %+v, and is kept at %+v", r.task, l.Lane, kept, r)
		}
		counts[r.priority-1]++
		a.listed[r.task] = "ready"
		return true
	})
	if counts != l.ranked.counts {
		a.breach("lane %v has %v ranked tasks, and counts %v", l.Lane, counts, l.ranked.counts)
	}
}

func (a *auditor) walkTasks() {
	for slot := range uint32(task.Slots) {
		for h := range a.s.index.Each(slot) {
			a.walkTask(slot, h)
		}
	}
}

func (a *auditor) walkTask(slot uint32, h handle) {
	r := a.s.mem.tasks.Read(h)
	namespace, id := a.s.mem.idOf(r)
	if a.s.Find(namespace, id).h != h || task.Slot(namespace, id) != slot {
		a.breach("%q is not found by its id", id)
	}
	a.counts[r.state]++
	if !r.is(fsmpb.State_STATE_SCHEDULED) {
		a.slots[slot][r.state]++
	}
	c := readCold(a.s.mem.blobs.Get(r.cold))
	if c.manner != 0 {
		a.manners[c.manner]++
	}
	a.countQueue(r, &c)
	if r.is(fsmpb.State_STATE_RETRYING) {
		if l := (Task{a.s, h}).Lane(); l != nil {
			a.retrying[l.Lane]++
		} else if group := a.s.mem.extraOf(&c).Spec.Group; group != "" {
			a.breach("%q waits for its next attempt, and is not in the lane of its group %s", id, group)
		}
	}
	a.walkDue(id, slot, h)
	for _, k := range a.s.labels.appendKeys(nil, namespace, a.s.mem.extraOf(&c).Spec.Labels) {
		a.labels[k] = append(a.labels[k], h)
	}
	a.spaceOf(namespace).add(r.state, a.s.mem.heldBytes(r), 1)
	a.sum += a.s.mem.digest(h, a.s.mem.idDigest(r)) + a.s.mem.digestCold(r, &c) + a.s.mem.keysDigest(r)
	if r.waits {
		a.waiting++
	}
	if key := (wheelKey{r.Due(), r.Seq()}); r.waits || r.parked {
		if a.wheel[key] {
			a.breach("%q shares its place in the wheel with another task", id)
		}
		a.wheel[key] = true
	}
	if r.waits != r.Linked() {
		a.breach("%q: waits is %v, and in the wheel is %v", id, r.waits, r.Linked())
	}
	a.checkState(id, h, r)
}

func (a *auditor) checkState(id string, h handle, r *record) {
	if r.parked && (r.waits || a.s.Slots.IsOpen(a.s.mem.slotOf(r))) {
		a.breach("%q is parked, and waits in the wheel or is in an open slot", id)
	}
	want := map[fsmpb.State]string{
		fsmpb.State_STATE_READY: "ready", fsmpb.State_STATE_FIRING: "firing",
		fsmpb.State_STATE_DELIVERED: "tombstones", fsmpb.State_STATE_CANCELLED: "tombstones",
	}[fsmpb.State(r.state)]
	if unlisted := (Task{a.s, h}).isUnlisted(); unlisted || r.parked {
		slot := a.s.mem.slotOf(r)
		if a.s.Slots.IsOpen(slot) || !slices.Contains(a.s.Moves.idle[slot], h) {
			a.breach("%q rests, and its slot %d is open or does not know of it", id, slot)
		}
		if unlisted {
			want = ""
		}
	}
	if a.listed[h] != want {
		a.breach("%q is %s and in the list %q", id, fsmpb.State(r.state), a.listed[h])
	}
	if r.progress == 0 && !r.is(fsmpb.State_STATE_SCHEDULED) {
		a.breach("%q is %s and has no progress record", id, fsmpb.State(r.state))
	}
	if r.progress == 0 {
		return
	}
	p := a.s.mem.progress.Read(r.progress)
	a.bytes += int64(p.size)
	if p.fence > a.s.Number || p.revision > a.s.Number {
		a.breach("%q: fence %d or revision %d is beyond the counter %d", id, p.fence, p.revision, a.s.Number)
	}
}

// wheelKey is the place of a task in the order of the wheel.
type wheelKey struct {
	due int64
	seq uint64
}

// queueTally holds the counts of one queue, as a walk finds them.
type queueTally struct {
	tasks  byState
	leased int
}

func (a *auditor) spaceOf(name string) *namespace {
	n := a.spaces[name]
	if n == nil {
		n = &namespace{name: name}
		a.spaces[name] = n
	}
	return n
}

// checkNamespaces compares the counts of each namespace with those of a full walk.
func (a *auditor) checkNamespaces() {
	for _, q := range a.s.mem.queues.values {
		if q != nil {
			a.spaceOf(q.namespace).queues++
		}
	}
	for name, walked := range a.spaces {
		kept := a.s.mem.queues.spaces[name]
		if kept == nil {
			a.breach("namespace %s is not kept", name)
			continue
		}
		walked.copies = kept.copies
		if *kept != *walked {
			a.breach("namespace %s: counts kept are %+v, those of a full walk %+v", name, *kept, *walked)
		}
		if a.s.Moves.coming == nil && kept.copies != (spaceCounts{}) {
			a.breach("namespace %s counts copies, and no slot is coming", name)
		}
	}
	if len(a.spaces) != len(a.s.mem.queues.spaces) {
		a.breach("%d namespaces are kept, and %d have a queue", len(a.s.mem.queues.spaces), len(a.spaces))
	}
}

// checkQueues compares the counts of each queue with those of a full walk.
func (a *auditor) checkQueues() {
	a.checkDues("the shard", a.pending, &a.s.pending)
	rules := 0
	for n, q := range a.s.mem.queues.values {
		if q == nil {
			continue
		}
		if a.s.mem.queues.numbers[q.queueKey] != uint32(n) || q.number != uint32(n) {
			a.breach("queue %v is not found by its name", q.queueKey)
		}
		if got := (queueTally{q.tasks, q.leased}); got != a.queueTallies[q.queueKey] {
			a.breach("queue %v: counts kept are %v, those of a full walk %v", q.queueKey, got, a.queueTallies[q.queueKey])
		}
		a.checkDues(fmt.Sprint("queue ", q.queueKey), a.dues[q.queueKey], &q.dues)
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
			a.breach("queue %v has %d uses, and counts %d", q.queueKey, uses, q.uses)
		}
		delete(a.queueTallies, q.queueKey)
	}
	if rules != a.s.mem.queues.rules || len(a.queueTallies) != 0 {
		a.breach("%d rules, and %d are kept; queues not kept: %v", rules, a.s.mem.queues.rules, a.queueTallies)
	}
}

// countQueue counts a task for its queue by other means than the store uses.
func (a *auditor) countQueue(r *record, c *cold) {
	namespace, _ := a.s.mem.idOf(r)
	key := queueKey{namespace, a.s.mem.specOf(c, false).Queue}
	tally := a.queueTallies[key]
	tally.tasks[r.state]++
	if r.progress != 0 && a.s.mem.progress.Read(r.progress).leased {
		tally.leased++
	}
	a.queueTallies[key] = tally
	if r.waitsForAttempt() {
		if a.dues[key] == nil {
			a.dues[key] = map[int64]int{}
		}
		a.dues[key][dueSecond(r.Due())]++
		a.pending[dueSecond(r.Due())]++
	}
	a.uses[key]++
}

// checkDues compares kept counts with the numbers of tasks by the second in which they come due.
func (a *auditor) checkDues(of string, seconds map[int64]int, kept *dues) {
	for level, span := range dueSpans {
		steps := map[int64]int{}
		for second, n := range seconds {
			steps[second/span] += n
		}
		for step, n := range steps {
			if got := kept.counts[level].Count(uint32(step)); int(got) != n {
				a.breach("%s: %d tasks are due in step %d of %d s, and %d are kept", of, n, step, span, got)
			}
		}
		if got := kept.counts[level].Len(); got != len(steps) {
			a.breach("%s: tasks are due in %d steps of %d s, and %d are kept", of, len(steps), span, got)
		}
	}
}

// checkOverdue compares a queue's heap of lanes with the lanes.
func (a *auditor) checkOverdue(q *queue) {
	oldest, n := int64(math.MaxInt64), 0
	for _, l := range a.s.Lanes.values {
		if l != nil && l.queue == q && l.Ready() > 0 {
			n++
			oldest = min(oldest, l.earliest(a.s.mem.links()))
		}
	}
	if n != len(q.waiting) || n > 0 && q.waiting[0].overdue != oldest {
		a.breach("queue %v: %d lanes wait since %d, and the heap has %d", q.queueKey, n, oldest, len(q.waiting))
	}
}

// checkLabels compares the index of labels with the labels that a full walk found.
func (a *auditor) checkLabels() {
	walked := 0
	for k, tasks := range a.labels {
		walked += len(tasks)
		a.checkLabel(k, tasks)
	}
	kept, bytes := 0, int64(0)
	for slot := range uint32(task.Slots) {
		kept += a.s.labels.rare.SlotLen(slot)
	}
	for _, p := range a.s.labels.postings {
		kept += p.n
		bytes += p.bytes()
	}
	if kept != walked {
		a.breach("the index of labels has %d entries, and the tasks have %d labels", kept, walked)
	}
	if bytes != a.s.labels.bytes {
		a.breach("the postings count %d bytes, and have %d", a.s.labels.bytes, bytes)
	}
}

// checkLabel compares the tasks of a label with the index.
func (a *auditor) checkLabel(k labelKey, tasks []handle) {
	if n := a.s.labels.len(k); n != len(tasks) {
		a.breach("label %x has %d tasks in the index, and %d tasks have it", k, n, len(tasks))
	}
	var got foundTasks
	indexed := a.s.labels.tasks(k)
	for slot := range uint32(task.Slots) {
		for h := range indexed.Each(slot) {
			got = append(got, uint64(slot)<<32|uint64(h))
		}
	}
	slices.Sort(got)
	if want := newFoundTasks(tasks, a.s.labels.slotOf); !slices.Equal(got, want) {
		a.breach("label %x has tasks %x in the index, and tasks %x have it", k, got, want)
	}
}

// walkDue looks for a task in the index of due times.
func (a *auditor) walkDue(id string, slot uint32, h handle) {
	for _, k := range dueKeysOf(Task{a.s, h}) {
		if k == 0 {
			continue
		}
		a.due++
		if !a.s.dues.places.has(k.place(slot, h)) {
			a.breach("%q is not in the index of due times at %x", id, k)
		}
	}
}

// checkDueIndex compares the size of the index of due times with the tasks that a full walk found.
func (a *auditor) checkDueIndex() {
	if n := a.s.dues.places.count; n != a.due {
		a.breach("the index of due times has %d places, and the tasks have %d", n, a.due)
	}
}
