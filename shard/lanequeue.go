package shard

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
)

// queueName names a queue.
type queueName struct{ namespace, queue string }

// laneQueue is what a leadership knows of a queue with lanes.
type laneQueue struct {
	queueName
	policy *fsmpb.QueuePolicy // nil: none
	lanes  int                // records of it; with the last one it goes
	firing int                // attempts and leases under way: the sum over its lanes
	// unknown: the shard's rules hold the queue, and this node has not heard yet what its policy is.
	unknown bool

	// Of a limited queue.
	want     int            // what its lanes could begin now: the sum of their wishes
	line     []*lane        // those with a wish, in the order in which they are served
	servable bool           // in book.servable
	touched  bool           // in book.touched
	permits  *lend.Borrower // nil: the queue has no limits
}

// isShut tells whether nothing of it may begin.
func (q *laneQueue) isShut() bool { return q.policy.GetPaused() || q.unknown }

// queueOf returns the record of a lane's queue.
func (b *book) queueOf(key task.Lane) *laneQueue {
	name := queueName{key.Namespace, key.Queue}
	if q, ok := b.queues[name]; ok {
		return q
	}
	q := &laneQueue{queueName: name}
	b.queues[name] = q
	b.setPolicy(q, b.shard.policyOf(name.namespace, name.queue))
	return q
}

// leaveQueue is called when a lane has been forgotten.
func (b *book) leaveQueue(l *lane) {
	q := l.queue
	if q.lanes--; q.lanes > 0 {
		return
	}
	if q.permits != nil {
		q.permits.Report(0, 0)
	}
	delete(b.queues, q.queueName)
}

// policiesChanged looks at all policies again, and at the lanes of those queues that have another. held names the
// queues that the shard's rules hold, as long as the policies are not known.
func (b *book) policiesChanged(held map[queueName]bool) {
	b.held = held
	changed := map[*laneQueue]bool{}
	for name, q := range b.queues {
		policy := b.shard.policyOf(name.namespace, name.queue)
		if policy != q.policy || q.unknown != held[name] {
			b.setPolicy(q, policy)
			changed[q] = true
		}
	}
	if len(changed) == 0 {
		return
	}
	for _, l := range b.lanes {
		if !changed[l.queue] {
			continue
		}
		if l.isEmpty() {
			l.Pulled = l.isPulledByPolicy()
		}
		b.leaveLine(l)
		b.mark(l)
	}
}

func (b *book) setPolicy(q *laneQueue, policy *fsmpb.QueuePolicy) {
	q.policy, q.unknown = policy, b.held[q.queueName]
	if !isLimited(policy) {
		if q.permits != nil {
			q.permits.Report(0, 0)
			q.permits = nil
		}
		return
	}
	q.permits = b.borrower(q.queueName)
	q.permits.CountInFlight(policy.MaxInFlight > 0)
	b.touch(q)
}

// touch has a limited queue's borrower told of the entry.
func (b *book) touch(q *laneQueue) {
	if q.permits != nil && !q.touched {
		q.touched = true
		b.touched = append(b.touched, q)
	}
}

// report tells borrowers what has become of their queues. A queue that is shut wants nothing.
func (b *book) report() {
	for _, q := range b.touched {
		q.touched = false
		switch {
		case q.permits == nil:
		case q.isShut():
			q.permits.Report(q.firing, 0)
		default:
			q.permits.Report(q.firing, q.want)
		}
	}
	b.touched = b.touched[:0]
}

// setWish notes what a lane of a limited queue could begin, and lets it stand in line while that is something.
func (b *book) setWish(l *lane, wish int) {
	q := l.queue
	if wish == l.wish {
		return
	}
	q.want += wish - l.wish
	l.wish = wish
	b.touch(q)
	if wish > 0 && !l.inLine {
		l.inLine = true
		q.line = append(q.line, l)
	}
	b.serveLater(q)
}

// leaveLine takes a lane's wish back. Its place in line is noticed to be void when its turn comes.
func (b *book) leaveLine(l *lane) { b.setWish(l, 0) }

// serveLater has a queue's line served when the next entry is put together.
func (b *book) serveLater(q *laneQueue) {
	if !q.servable && len(q.line) > 0 && q.permits != nil && q.permits.Free() > 0 {
		q.servable = true
		b.servable = append(b.servable, q)
	}
}
