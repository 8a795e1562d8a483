package dispatch

import (
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/groups"
)

// inquiry is the planner's record of the asks for permits of one queue's groups. One ask is under way at a time.
type inquiry struct {
	QueueName
	number uint64        // of the ask under way; 0: none
	asked  []string      // its groups
	parked bool          // it waits at the owner until a permit is free
	cancel func()        // ends it; nil: it was called
	ended  []string      // groups with fewer attempts under way, of which the owner has not been told
	lost   uint64        // number of the last ask, if it has no answer; 0: it has, or its permits count for no rate
	unused []groups.Want // permits that begin no attempt, of which the owner has not been told

	membership
}

// end notes that a group has fewer attempts under way than before.
func (i *inquiry) end(name string) {
	if n := len(i.ended); n == 0 || i.ended[n-1] != name {
		i.ended = append(i.ended, name)
	}
}

// giveBack notes permits that a group gives back, if the owner counts them for its rate. It finds the others in a
// Standing.
func (all *inquiries) giveBack(q *queue, group string, permits int) {
	if permits > 0 && q.policy.GetGroupPerSecond() > 0 {
		i := all.open(q.QueueName)
		i.unused = append(i.unused, groups.Want{Group: group, Permits: permits})
	}
}

// inquiries holds the asks for permits of groups.
type inquiries struct {
	byQueue map[QueueName]*inquiry     // under way or to be made
	due     fifo[*inquiry]             // those to look at with the next report
	last    uint64                     // number of the last ask
	owners  map[QueueName]groups.Owner // the latest owners that have looked; one for each queue that limits groups
}

func newInquiries() inquiries {
	return inquiries{
		byQueue: map[QueueName]*inquiry{}, due: fifo[*inquiry]{set: inquiring}, owners: map[QueueName]groups.Owner{},
	}
}

// open returns the record of a queue's asks and creates it if there is none. The next report makes its ask.
func (all *inquiries) open(name QueueName) *inquiry {
	i := all.byQueue[name]
	if i == nil {
		i = &inquiry{QueueName: name}
		all.byQueue[name] = i
	}
	all.due.add(i)
	return i
}

// wish files a group that wants permits for the next ask.
func (all *inquiries) wish(g *group) {
	if g.want == 0 || g.asked {
		return
	}
	if g.refused {
		g.queue.refused.add(g)
	} else {
		g.queue.wanting.add(g)
	}
	all.open(g.queue.QueueName)
}

// inquire makes the next ask of a queue, unless one is under way. An ask that waits at the owner is ended first if
// there is news.
func (p *Planner) inquire(i *inquiry) {
	q := p.queues[i.QueueName]
	isNews := len(i.ended)+len(i.unused) > 0 || q != nil && q.wanting.len() > 0
	if i.number != 0 {
		if isNews && i.parked && i.cancel != nil {
			i.cancel()
			i.cancel = nil
		}
		return
	}
	ask := groups.Ask{Namespace: i.Namespace, Queue: i.Queue, Wait: !isNews}
	ask.Ended, i.ended = cut(i.ended)
	ask.Unused, i.unused = cut(i.unused)
	ask.Lost, i.lost = i.lost, 0
	i.asked = i.asked[:0]
	if q != nil {
		i.take(&ask, &q.wanting)
		i.take(&ask, &q.refused)
	}
	if len(ask.Wants)+len(ask.Ended)+len(ask.Unused) == 0 && ask.Lost == 0 {
		delete(p.inquiries.byQueue, i.QueueName)
		return
	}
	p.inquiries.last++
	ask.Number = p.inquiries.last
	i.number, i.parked = ask.Number, ask.Wait
	i.cancel = p.cfg.Owners.Ask(ask)
}

// take moves the wants of groups from a set to an ask, as far as the ask has room.
func (i *inquiry) take(ask *groups.Ask, from *fifo[*group]) {
	for from.len() > 0 && len(ask.Wants) < groups.MaxWants {
		g := from.take()
		if g.want == 0 || g.asked {
			continue
		}
		g.asked = true
		i.asked = append(i.asked, g.name)
		ask.Wants = append(ask.Wants, groups.Want{Group: g.name, Permits: g.want})
	}
}

// cut cuts a list at the limit of an ask.
func cut[T any](list []T) (first, rest []T) {
	n := min(len(list), groups.MaxWants)
	return list[:n:n], list[n:]
}

// Answered reports the owner's answer to an ask, or why there is none.
func (p *Planner) Answered(now time.Time, number uint64, name QueueName, answer groups.Answer, err error) {
	p.turnTo(now)
	i := p.inquiries.byQueue[name]
	if i == nil || i.number != number {
		panic("dispatch: an answer without an ask")
	}
	i.number, i.cancel = 0, nil
	p.inquiries.due.add(i)
	q := p.queues[name]
	if q == nil {
		return
	}
	if err != nil && q.policy.GetGroupPerSecond() > 0 {
		i.lost = number
	}
	if answer.Owner.Compare(p.inquiries.owners[name]) < 0 {
		answer.Given = nil // a later owner has looked, and does not know of these permits
	}
	for _, name := range i.asked {
		if g := q.groups[name]; g != nil {
			g.refused = err == nil
		}
	}
	for _, given := range answer.Given {
		g := q.groups[given.Group]
		if g == nil || !g.asked {
			p.inquiries.giveBack(q, given.Group, given.Permits)
			continue
		}
		g.permits += given.Permits
		g.untilMs, g.refused = given.FirstMs, false
		if rate := q.policy.GetGroupPerSecond(); rate > 0 {
			g.lapses = p.now.Add(groups.Life(rate))
		}
	}
	for _, name := range i.asked {
		if g := q.groups[name]; g != nil {
			g.asked = false
			p.reviewGroup(g)
		}
	}
}

// Standing returns where groups stand in this shard, after all entries applied so far. It is not called while an entry
// is being made. ok is false if a later owner of the queue has looked before.
func (p *Planner) Standing(look groups.Look) (standing groups.Standing, ok bool) {
	name := QueueName{look.Namespace, look.Queue}
	if look.Owner.Compare(p.inquiries.owners[name]) < 0 {
		return groups.Standing{}, false
	}
	p.inquiries.owners[name] = look.Owner
	standing = groups.Standing{Done: p.inquiries.last, Groups: make([]groups.Count, len(look.Groups))}
	if i := p.inquiries.byQueue[name]; i != nil && i.number != 0 {
		standing.Done = i.number - 1
	}
	q := p.queues[name]
	for i, group := range look.Groups {
		if q != nil {
			standing.Groups[i] = q.count(group)
		}
	}
	return standing, true
}

// count returns where a group stands. The queue's policy may not limit groups yet at this node.
func (q *queue) count(name string) (n groups.Count) {
	n.Priority = task.LastPriority
	add := func(part *part) {
		n.UnderWay += part.Firing
		n.Retrying += part.Retrying
		if part.Ready == 0 {
			return
		}
		if !n.Waiting || part.FirstMs < n.FirstMs {
			n.FirstMs = part.FirstMs
		}
		n.Waiting, n.Priority = true, min(n.Priority, bestOf(part.Waiting))
	}
	if g := q.groups[name]; g != nil {
		n.UnderWay = g.permits
		for _, part := range g.parts {
			add(part)
		}
		return n
	}
	for _, l := range q.lanes.lanes {
		if l.parts != nil && l.parts.byGroup[name] != nil {
			add(l.parts.byGroup[name])
		}
	}
	return n
}

// MayHear reports whether an answer about groups is on its way, or the next report asks for one, so that a plan may
// soon grant more. An ask that waits for the end of an attempt does not count.
func (p *Planner) MayHear() bool {
	for _, q := range p.queues {
		if p.inquiries.mayHear(q) {
			return true
		}
	}
	return false
}

// mayHear reports whether an answer about the groups of a queue is on its way, or the next report asks for it.
func (all *inquiries) mayHear(q *queue) bool {
	i := all.byQueue[q.QueueName]
	return i != nil && (q.wanting.len() > 0 || i.number != 0 && !i.parked)
}
