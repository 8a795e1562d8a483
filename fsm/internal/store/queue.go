package store

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// queueKey names a queue.
type queueKey struct{ namespace, name string }

// queue holds the rule and the counts of one queue. It exists as long as a task, a lane or a rule uses it.
type queue struct {
	queueKey // never changes

	space  *namespace       // that the queue belongs to
	number uint32           // the queue's number in queues
	uses   int              // one for each task and lane, and one for the rule
	rule   *fsmpb.QueueRule // noRule if the queue has none; never nil, never written to

	queueCounts
	copies  *queueCounts // the part of copied tasks, which are not counted yet; nil: none
	waiting laneHeap
}

// Queues are the queues in use, with their rules and counts. Number 0 is the default queue of the default namespace,
// which always exists.
type Queues struct {
	numbered[queueKey, queue]
	spaces   map[string]*namespace // of the queues, by name
	rules    int                   // number of queues that have a rule
	rulesSum uint64                // sum of digestRule over all rules
}

func newQueues() Queues {
	q := &queue{queueKey: queueKey{task.DefaultNamespace, task.DefaultQueue}, uses: 1, rule: noRule}
	qs := Queues{numbered: newNumbered[queueKey](q), spaces: map[string]*namespace{}}
	qs.numbers[q.queueKey] = 0
	q.space = qs.join(q.namespace)
	return qs
}

func keyOfQueue(namespace, name string) queueKey {
	if name == "" {
		name = task.DefaultQueue
	}
	return queueKey{task.CanonicalNamespace(namespace), name}
}

// acquire counts one more use of a queue, and makes the queue if it is new.
func (qs *Queues) acquire(key queueKey) *queue {
	q := qs.Find(key)
	if q == nil {
		q = &queue{queueKey: queueKey{strings.Clone(key.namespace), strings.Clone(key.name)}, rule: noRule}
		q.number = qs.add(q.queueKey, q)
		q.space = qs.join(q.namespace)
	}
	q.uses++
	return q
}

// release counts one use less, and removes a queue without uses.
func (qs *Queues) release(q *queue) {
	if q.uses--; q.uses == 0 {
		qs.remove(q.queueKey)
		qs.leave(q.space)
	}
}

// Queues returns the queues of the store.
func (s *Store) Queues() *Queues { return &s.mem.queues }

// Names returns the sorted names of a namespace's queues that have a rule or hold a task, tombstones included.
func (qs *Queues) Names(namespace string) []string {
	namespace = task.CanonicalNamespace(namespace)
	var names []string
	for _, q := range qs.values {
		if q != nil && q.namespace == namespace && (q.rule != noRule || q.holds()) {
			names = append(names, q.name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// holds reports whether the queue has a task, tombstones included.
func (q *queue) holds() bool {
	for state := range q.tasks {
		if q.in(fsmpb.State(state)) > 0 {
			return true
		}
	}
	return false
}

// bytes returns an estimate of the memory of the queues in bytes, with their names and smallest counters.
func (qs *Queues) bytes() int64 {
	const each = 800
	return int64(len(qs.numbers)) * each
}

// Sizes returns the sizes at nowMs of the queues with a live task whose numbers are in [first, first+limit). more
// is set if there are higher numbers.
func (qs *Queues) Sizes(nowMs int64, first, limit int) (sizes []task.QueueSize, more bool) {
	list := qs.values
	end := min(first+limit, len(list))
	for _, q := range list[min(first, end):end] {
		if q == nil {
			continue
		}
		if size := q.size(nowMs); size.Live() > 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes, end < len(list)
}

func (q *queue) size(nowMs int64) task.QueueSize {
	size := task.QueueSize{
		Namespace: q.namespace, Queue: q.name,
		Pending:  q.in(fsmpb.State_STATE_SCHEDULED) + q.in(fsmpb.State_STATE_RETRYING),
		Ready:    q.in(fsmpb.State_STATE_READY),
		InFlight: q.in(fsmpb.State_STATE_FIRING),
		Dead:     q.in(fsmpb.State_STATE_DEAD),
	}
	if len(q.waiting) > 0 {
		size.OldestOverdueMs = q.waiting[0].overdue
	}
	size.DueMinute, size.DueHour = q.dueSoon(nowMs)
	return size
}

// noRule is the rule of a queue without a rule. It is never written to.
var noRule = &fsmpb.QueueRule{}

// isEmptyRule reports whether a rule sets no field and so equals noRule.
func isEmptyRule(r *fsmpb.QueueRule) bool {
	return !r.Pushed && !r.Held && r.AttemptTimeoutMs == 0 && r.MaxAttempts == 0 && r.KeepDoneMs == 0 &&
		r.KeepDeadMs == 0 && r.OnDelivered == nil && r.OnDead == nil
}

// Rules returns copies of the rules of all queues that have one, sorted by namespace and queue, with names written
// out.
func (qs *Queues) Rules() []*fsmpb.QueueRule {
	rules := qs.allRules()
	for i, r := range rules {
		rules[i] = proto.CloneOf(r)
	}
	slices.SortFunc(rules, func(a, b *fsmpb.QueueRule) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Queue, b.Queue))
	})
	return rules
}

// allRules returns the stored rules in no particular order. The caller must not change them.
func (qs *Queues) allRules() []*fsmpb.QueueRule {
	rules := make([]*fsmpb.QueueRule, 0, qs.rules)
	for _, q := range qs.values {
		if q != nil && q.rule != noRule {
			rules = append(rules, q.rule)
		}
	}
	return rules
}

// SetRule makes r the rule of its queue. It moves no task: the queue and destination name a task's lane, and a begun
// attempt ends as it began.
func (s *Store) SetRule(r *fsmpb.QueueRule) {
	key := keyOfQueue(r.Namespace, r.Queue)
	q := s.mem.queues.acquire(key) // for the new rule
	before := q.rule
	if before != noRule {
		s.mem.queues.rulesSum -= digestRule(before)
		s.mem.queues.rules--
		s.mem.queues.release(q) // for the old rule
	}
	if isEmptyRule(r) {
		q.rule = noRule
		s.mem.queues.release(q)
	} else {
		q.rule = CopyOf(r)
		q.rule.Namespace, q.rule.Queue = q.namespace, q.name
		s.mem.queues.rulesSum += digestRule(q.rule)
		s.mem.queues.rules++
	}
	if before.Pushed != q.rule.Pushed {
		s.Lanes.touchUntargeted(q)
	}
}

// touchUntargeted notes that the loads of the lanes of tasks without a target have changed, since they include Pulled.
func (ls *Lanes) touchUntargeted(q *queue) {
	for _, l := range ls.values {
		if l != nil && l.queue == q && l.Destination == "" {
			ls.touch(l)
		}
	}
}

func digestRule(r *fsmpb.QueueRule) uint64 { return xxhash.Sum64(mustMarshal(r)) }

// namespace counts the tasks of one namespace. It exists as long as one of its queues does.
type namespace struct {
	name   string
	queues int // in use, the default queue of the default namespace included

	spaceCounts
	copies spaceCounts // the part of copied tasks, which are not counted yet
}

// spaceCounts counts the tasks of a namespace.
type spaceCounts struct {
	tasks byState
	bytes int64 // of all tasks but the delivered and the cancelled ones
}

// add adds n, 1 or -1, tasks in one state that hold some bytes.
func (c *spaceCounts) add(state uint8, held, n int) {
	c.tasks[state] += n
	c.grow(state, n*held)
}

// grow adds to the bytes of a task in one state.
func (c *spaceCounts) grow(state uint8, bytes int) {
	if s := fsmpb.State(state); s != fsmpb.State_STATE_DELIVERED && s != fsmpb.State_STATE_CANCELLED {
		c.bytes += int64(bytes)
	}
}

// join returns a namespace and counts one more queue of it.
func (qs *Queues) join(name string) *namespace {
	n := qs.spaces[name]
	if n == nil {
		n = &namespace{name: strings.Clone(name)}
		qs.spaces[n.name] = n
	}
	n.queues++
	return n
}

// leave counts one queue less of a namespace, and removes a namespace without queues.
func (qs *Queues) leave(n *namespace) {
	if n.queues--; n.queues == 0 {
		delete(qs.spaces, n.name)
	}
}

// Use returns the tasks and bytes of a namespace. Its cost does not depend on the number of tasks or queues.
// Replicas share different values between tasks, and encode their numbers, so the bytes differ a little from replica to
// replica. Copies of moving tasks are left out, as in Counts.
func (qs *Queues) Use(name string) task.NamespaceUse {
	use := task.NamespaceUse{Namespace: task.CanonicalNamespace(name)}
	n := qs.spaces[use.Namespace]
	if n == nil {
		return use
	}
	for state, tasks := range n.tasks {
		live := uint64(max(0, tasks-n.copies.tasks[state]))
		switch fsmpb.State(state) {
		case fsmpb.State_STATE_DEAD:
			use.Dead += live
		case fsmpb.State_STATE_DELIVERED, fsmpb.State_STATE_CANCELLED:
		default:
			use.Pending += live
		}
	}
	use.Bytes = uint64(max(0, n.bytes-n.copies.bytes))
	use.Queues = uint64(n.queues)
	if q := qs.at(0); q.space == n && q.rule == noRule && !q.holds() {
		use.Queues--
	}
	return use
}

// laneHeap is a heap of a queue's lanes that have ready tasks. On top is the lane whose first ready task was due first,
// and of several such lanes the one of tasks without a target, so that all replicas answer alike. Each lane moves at
// most once an entry, however many of its tasks the entry moved.
type laneHeap []*Lane

// place moves a lane to its right position by its ready list: into the heap, within it, or out of it.
func (h *laneHeap) place(l *Lane, links listLinks) {
	inHeap := l.waitingAt > 0
	switch {
	case l.Ready() == 0:
		if inHeap {
			heap.Remove(h, l.waitingAt-1)
		}
		return
	case !inHeap:
		l.overdue = l.earliest(links)
		heap.Push(h, l)
		return
	}
	if first := l.earliest(links); first != l.overdue {
		l.overdue = first
		heap.Fix(h, l.waitingAt-1)
	}
}

// earliest returns the earliest due time among the first ready tasks of a lane, one of each kind of rank.
func (l *Lane) earliest(links listLinks) int64 {
	due := int64(math.MaxInt64)
	for _, first := range []handle{l.fresh.head, l.retried.head} {
		if first != 0 {
			due = min(due, links.read(first).fireAt)
		}
	}
	if first, ok := l.ranked.first(true); ok {
		due = min(due, first.due)
	}
	return due
}

// The methods of heap.Interface.

func (h laneHeap) Len() int { return len(h) }

func (h laneHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].overdue, h[j].overdue), strings.Compare(h[i].Destination, h[j].Destination)) < 0
}

func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].waitingAt, h[j].waitingAt = i+1, j+1
}

// Push is called by the heap package.
func (h *laneHeap) Push(x any) {
	l := x.(*Lane) // the store pushes only lanes
	*h = append(*h, l)
	l.waitingAt = len(*h)
}

// Pop is called by the heap package.
func (h *laneHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.waitingAt = 0
	return l
}
