package store

import (
	"slices"
	"strings"

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
