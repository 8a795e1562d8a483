package shard

import (
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// queueName names a queue.
type queueName struct{ namespace, queue string }

// laneQueue is what a leadership knows of a queue with lanes.
type laneQueue struct {
	queueName
	policy *fsmpb.QueuePolicy // nil: none
	lanes  int                // records of it; with the last one it goes
	firing int                // attempts and leases under way: the sum over its lanes

	// Of a limited queue.
	want     int     // what its lanes could begin now: the sum of their wishes
	line     []*lane // those with a wish, in the order in which they are served
	servable bool    // in book.servable
	touched  bool    // in book.touched
	permits  permits // nil: the queue has no limits
}

// permits are the rights to begin attempts that a limited queue has borrowed here.
type permits interface {
	// Free is how many may begin now.
	Free() int
	// Take uses one up.
	Take() bool
	// Report says how many are under way, and how many more could begin.
	Report(inFlight, want int)
	// Close gives back what is left.
	Close()
}

func (q *laneQueue) paused() bool { return q.policy.GetPaused() }

func limited(p *fsmpb.QueuePolicy) bool { return p.GetMaxInFlight() > 0 || p.GetMaxPerSecond() > 0 }

// queueOf returns the record of a lane's queue.
func (b *book) queueOf(key fsm.Lane) *laneQueue {
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
		q.permits.Close()
		q.permits = nil
	}
	delete(b.queues, q.queueName)
}

// policiesChanged looks at all policies again, and at the lanes of those queues that have another.
func (b *book) policiesChanged() {
	changed := map[*laneQueue]bool{}
	for name, q := range b.queues {
		policy := b.shard.policyOf(name.namespace, name.queue)
		if policy != q.policy {
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
	q.policy = policy
}

// touch has a limited queue's borrower told of the entry.
func (b *book) touch(q *laneQueue) {
	if q.permits != nil && !q.touched {
		q.touched = true
		b.touched = append(b.touched, q)
	}
}

// report tells borrowers what has become of their queues.
func (b *book) report() {
	for _, q := range b.touched {
		q.touched = false
		if q.permits != nil {
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

// retire gives back all permits: the leadership is over.
func (b *book) retire() {
	for _, q := range b.queues {
		if q.permits != nil {
			q.permits.Close()
		}
	}
}
