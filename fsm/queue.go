package fsm

import (
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// queueKey names a queue.
type queueKey struct{ namespace, name string }

// queue is what the machine knows of one queue. It is there as long as a task, a lane or a rule of it is.
type queue struct {
	queueKey // never changes

	number uint32           // its own, in queues
	uses   int              // by tasks, lanes and its rule
	rule   *fsmpb.QueueRule // noRule if there is none; never nil, never written to

	tasks   byState
	leased  int  // of those that are firing
	dues    dues // of those that are scheduled or retrying
	waiting laneHeap
}

// queues gives small numbers to the queues in use. Number 0 is the default queue of the default namespace, and always
// there.
type queues struct {
	numbers map[queueKey]uint32
	list    []*queue // by number; nil: free
	free    []uint32
	rules   int // how many have one
}

func newQueues() queues {
	q := &queue{queueKey: queueKey{task.DefaultNamespace, task.DefaultQueue}, uses: 1, rule: noRule}
	return queues{numbers: map[queueKey]uint32{q.queueKey: 0}, list: []*queue{q}}
}

func keyOfQueue(namespace, name string) queueKey {
	if name == "" {
		name = task.DefaultQueue
	}
	return queueKey{task.CanonicalNamespace(namespace), name}
}

// acquire counts one more use of a queue, which is made if it is new.
func (qs *queues) acquire(key queueKey) *queue {
	q := qs.find(key)
	if q == nil {
		q = qs.add(&queue{queueKey: queueKey{strings.Clone(key.namespace), strings.Clone(key.name)}, rule: noRule})
	}
	q.uses++
	return q
}

func (qs *queues) add(q *queue) *queue {
	if k := len(qs.free); k > 0 {
		q.number, qs.free = qs.free[k-1], qs.free[:k-1]
		qs.list[q.number] = q
	} else {
		q.number = uint32(len(qs.list))
		qs.list = append(qs.list, q)
	}
	qs.numbers[q.queueKey] = q.number
	return q
}

// release counts one use less.
func (qs *queues) release(q *queue) {
	if q.uses--; q.uses == 0 {
		delete(qs.numbers, q.queueKey)
		qs.list[q.number] = nil
		qs.free = append(qs.free, q.number)
	}
}

// find returns a queue in use, nil for none.
func (qs *queues) find(key queueKey) *queue {
	if n, ok := qs.numbers[key]; ok {
		return qs.list[n]
	}
	return nil
}

// copyForReading returns the same queues by the same numbers, for a snapshot to read the names of while these change.
func (qs *queues) copyForReading() queues { return queues{list: slices.Clone(qs.list)} }

// queueOf returns the queue of a task.
func (s *state) queueOf(r *record) *queue { return s.queues.list[coldQueue(s.blobs.Get(r.cold))] }

// Queues returns the names of the queues of a namespace that hold a task, tombstones included, or have a rule, sorted.
func (m *Machine) Queues(namespace string) []string {
	namespace = task.CanonicalNamespace(namespace)
	m.mu.RLock()
	defer m.mu.RUnlock()
	var names []string
	for _, q := range m.queues.list {
		if q != nil && q.namespace == namespace && (q.rule != noRule || q.holds()) {
			names = append(names, q.name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// holds tells whether the queue has a task, tombstones included.
func (q *queue) holds() bool {
	for _, n := range q.tasks {
		if n > 0 {
			return true
		}
	}
	return false
}

// bytes is about what the queues hold, their names and smallest counters included.
func (qs *queues) bytes() int64 {
	const each = 800
	return int64(len(qs.numbers)) * each
}
