package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
)

// QueueName names a queue.
type QueueName struct{ Namespace, Queue string }

func (n QueueName) compare(other QueueName) int {
	return cmp.Or(cmp.Compare(n.Namespace, other.Namespace), cmp.Compare(n.Queue, other.Queue))
}

// Permits are the rights to begin attempts of one limited queue that a leader has borrowed. *lend.Borrower implements
// it.
type Permits interface {
	// Free returns the number of attempts that may begin.
	Free(now time.Time) int
	// Take uses one permit. It returns false if there is none.
	Take(now time.Time) bool
	// Report sets the number of attempts and leases under way, including those of taken permits, the number that could
	// still begin, and the best priority of their tasks. Permits beyond that number go back to the owner.
	Report(now time.Time, inFlight, want, priority int)
	// CountInFlight sets whether the queue limits the attempts under way, so that other borrowers may wait for one to
	// end.
	CountInFlight(bool)
}

// LimitOf returns the limit that a queue's policy sets for the whole cluster. A queue without a policy has no limit.
func LimitOf(policy *fsmpb.QueuePolicy) lend.Limit {
	return lend.Limit{InFlight: int(policy.GetMaxInFlight()), PerSecond: policy.GetMaxPerSecond()}
}

// queue is the planner's record of a queue that has lanes.
type queue struct {
	QueueName
	space   *space
	policy  *fsmpb.QueuePolicy // nil: none
	unknown bool               // the shard's rules hold the queue, and this node does not yet know its policy
	lanes   ring               // records of its lanes; the queue is forgotten with the last one
	firing  int                // attempts and leases under way: the sum over its lanes

	heldBack fifo[*lane] // lanes that fewer attempts under way wake

	// The fields below are for a limited queue.
	permits Permits // nil: the queue has no limits
	want    int     // attempts that its lanes could begin: the sum of their wishes
	lines   lines

	// The fields below are for a queue that limits groups.
	groups  map[string]*group
	wanting fifo[*group] // groups that want permits, and have news for the owner
	refused fifo[*group] // groups that want permits, which the owner did not have

	membership
}

// isShut reports whether no task of the queue may begin.
func (q *queue) isShut() bool { return q.policy.GetPaused() || q.unknown }

// queueOf returns the record of a lane's queue and creates it if there is none.
func (p *Planner) queueOf(key task.Lane) *queue {
	name := QueueName{key.Namespace, key.Queue}
	if q, ok := p.queues[name]; ok {
		return q
	}
	q := &queue{
		QueueName: name, lanes: ring{id: ringQueue}, lines: newLines(), heldBack: fifo[*lane]{set: heldBack},
		groups: map[string]*group{}, wanting: fifo[*group]{set: wanting}, refused: fifo[*group]{set: refused},
	}
	q.space = p.spaces.open(name.Namespace)
	q.space.queues++
	p.queues[name] = q
	p.setPolicy(q)
	return q
}

// leaveQueue removes a lane from its queue, and forgets the queue with its last lane.
func (p *Planner) leaveQueue(l *lane) {
	q := l.queue
	q.lanes.set(l, false)
	if len(q.lanes.lanes) > 0 {
		return
	}
	if q.permits != nil {
		q.permits.Report(p.now, 0, 0, task.LastPriority)
	}
	delete(p.queues, q.QueueName)
	p.spaces.leave(q.space)
}

// Policies compares all queues with their policies and wakes the lanes of the queues whose policy changed. held names
// the queues that the shard's rules hold; it is empty once this node knows the policies.
func (p *Planner) Policies(now time.Time, held map[QueueName]bool) {
	p.turnTo(now)
	p.held = held
	var changed []*queue
	for name, q := range p.queues {
		if p.cfg.Policies.Policy(name.Namespace, name.Queue) != q.policy || held[name] != q.unknown {
			changed = append(changed, q)
		}
	}
	slices.SortFunc(changed, func(a, b *queue) int { return a.compare(b.QueueName) })
	for _, q := range changed {
		p.setPolicy(q)
		p.regroup(q)
		for _, l := range q.lanes.lanes {
			p.reconsider(l)
		}
	}
}

// reconsider adapts a lane to its queue's new policy and wakes it.
func (p *Planner) reconsider(l *lane) {
	if l.isEmpty() {
		p.setPulled(l, l.isPulledByPolicy())
	}
	p.setWish(l, 0)
	p.wake(l)
}

// setPolicy sets a queue's present policy and its permits.
func (p *Planner) setPolicy(q *queue) {
	q.policy, q.unknown = p.cfg.Policies.Policy(q.Namespace, q.Queue), p.held[q.QueueName]
	limit := LimitOf(q.policy)
	if limit.IsNone() {
		if q.permits != nil {
			q.permits.Report(p.now, 0, 0, task.LastPriority)
			q.permits = nil
		}
		return
	}
	q.permits = p.cfg.Owners.Permits(q.QueueName)
	q.permits.CountInFlight(limit.InFlight > 0)
	p.touch(q)
}

// Lent reports that permits of a limited queue have come.
func (p *Planner) Lent(now time.Time, name QueueName) {
	p.turnTo(now)
	if q, ok := p.queues[name]; ok {
		p.serveLater(q)
	}
}

// setWish sets the number of attempts that a lane of a limited queue could begin. A lane with a wish stands in its
// queue's line. A lane whose wish has lapsed keeps its place until its turn.
func (p *Planner) setWish(l *lane, wish int) {
	q := l.queue
	if wish > 0 {
		q.lines.add(l)
	}
	if wish == l.wish {
		return
	}
	q.want += wish - l.wish
	l.wish = wish
	p.touch(q)
	p.serveLater(q)
}

// serveLater marks a queue's line for the next plan, if there are permits for it.
func (p *Planner) serveLater(q *queue) {
	if !q.isIn(serving) && q.lines.len() > 0 && q.permits != nil && q.permits.Free(p.now) > 0 {
		p.serving.add(q)
	}
}

// touch marks a limited queue for a report to its owner.
func (p *Planner) touch(q *queue) {
	if q.permits != nil {
		p.reporting.add(q)
	}
}

// report tells the owners of limited queues the number of attempts under way and of those that could begin, and asks
// for permits of groups. A shut queue wants none.
func (p *Planner) report() {
	p.reporting.drain(func(q *queue) {
		switch {
		case q.permits == nil:
		case q.isShut():
			q.permits.Report(p.now, q.firing, 0, task.LastPriority)
		default:
			q.permits.Report(p.now, q.firing, q.want, q.lines.priority())
		}
	})
	p.inquiries.due.drain(p.inquire)
}
