package dispatch

import (
	"math"
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/internal/groups"
)

// group is the planner's record of a group whose attempts the queue's policy limits. Its tasks may have several
// receivers.
type group struct {
	name    string
	queue   *queue
	parts   []*part
	permits int       // attempts that the queue's owner lets this shard begin
	untilMs int64     // in order: due time of the task that the permit was given for
	lapses  time.Time // in a queue with a rate of groups: end of the permits' life
	want    int       // further permits wanted
	asked   bool      // the group is in the ask under way
	refused bool      // the owner had no permit at the last ask, and nothing has changed here since

	membership
}

// permitsFor returns the number of attempts of a part of the group that may begin. In order, only the earliest task of
// the group may, and not after a task that the permit was not given for.
func (g *group) permitsFor(p *part) int {
	if g.queue.policy.GetFifo() && (g.head() != p || p.FirstMs > g.untilMs) {
		return 0
	}
	return g.permits
}

// head returns the part with the earliest ready task, or nil if no task is ready.
func (g *group) head() (head *part) {
	for _, p := range g.parts {
		if p.Ready > 0 && (head == nil || p.FirstMs < head.FirstMs) {
			head = p
		}
	}
	return head
}

// use uses up n permits.
func (g *group) use(n int) {
	g.permits -= n
	for _, p := range g.parts {
		p.file()
	}
}

// joinGroup makes the part one of its group, if the queue limits groups.
func (p *part) joinGroup() {
	q, name := p.lane.queue, p.Lane.Group
	if name == "" || !task.LimitsGroups(q.policy) {
		return
	}
	g := q.groups[name]
	if g == nil {
		g = &group{name: name, queue: q}
		q.groups[name] = g
	}
	g.parts = append(g.parts, p)
	p.group = g
}

// leaveGroup removes the part from its group, and forgets the group with its last part.
func (p *part) leaveGroup() {
	g := p.group
	if g == nil {
		return
	}
	p.group = nil
	g.parts = slices.DeleteFunc(g.parts, func(other *part) bool { return other == p })
	if len(g.parts) == 0 {
		g.want = 0
		delete(g.queue.groups, g.name)
	}
}

// regroup forms the groups of a queue anew, under a new policy. Permits of the old policy are void.
func (p *Planner) regroup(q *queue) {
	q.groups = map[string]*group{}
	q.wanting.drain(func(g *group) { g.want = 0 })
	q.refused.drain(func(g *group) { g.want = 0 })
	for _, l := range q.lanes.lanes {
		if l.parts == nil {
			continue
		}
		for _, part := range l.parts.all {
			part.group = nil
			part.joinGroup()
		}
	}
	for _, l := range q.lanes.lanes {
		p.reviewParts(l)
	}
}

// reviewParts reviews the groups of a lane's parts, because something else has changed than their tasks.
func (p *Planner) reviewParts(l *lane) {
	if l.parts == nil {
		return
	}
	for _, part := range l.parts.all {
		part.file()
		if part.group != nil {
			p.reviewGroup(part.group)
		}
	}
	p.wake(l)
}

// follow reviews a group after a change of a part's load. The end of an attempt may be what others wait for.
func (p *Planner) follow(g *group, before, after task.LaneLoad) {
	ended := after.Firing < before.Firing || after.Retrying < before.Retrying
	if ended || after.FirstMs < before.FirstMs {
		g.refused = false
	}
	if ended {
		p.inquiries.open(g.queue.QueueName).end(g.name)
	}
	p.reviewGroup(g)
}

// reviewGroup brings a group's permits and wishes up to date. The owner is asked with the next report.
func (p *Planner) reviewGroup(g *group) {
	ready, under, retrying := g.tasks()
	had := g.permits
	g.permits = min(g.permits, ready)
	g.want = 0
	switch head := g.head(); {
	case !g.mayBegin():
		g.permits = 0
	case g.queue.policy.GetFifo():
		if head == nil || head.FirstMs > g.untilMs {
			g.permits = 0
		}
		if head != nil && under+retrying+g.permits == 0 {
			g.want = 1
		}
	default:
		g.want = max(min(ready, g.room(under))-g.permits, 0)
	}
	p.inquiries.giveBack(g.queue, g.name, had-g.permits)
	for _, part := range g.parts {
		part.file()
		p.wake(part.lane)
	}
	p.inquiries.wish(g)
}

// room returns the number of permits that the group may hold.
func (g *group) room(under int) int {
	room := math.MaxInt
	if limit := task.GroupLimit(g.queue.policy); limit > 0 {
		room = limit - under
	}
	if rate := g.queue.policy.GetGroupPerSecond(); rate > 0 {
		room = min(room, groups.Portion(rate))
	}
	return room
}

// lapse voids the permits of the parts whose turn it is, as long as they are too old.
func (p *Planner) lapse(of *parts) {
	for len(of.queue) > 0 {
		g := of.queue[0].group
		if g == nil || g.lapses.IsZero() || p.now.Before(g.lapses) {
			return
		}
		g.lapses = time.Time{}
		g.use(g.permits)
		p.reviewGroup(g)
	}
}

// tasks returns the numbers of the group's tasks.
func (g *group) tasks() (ready, under, retrying int) {
	for _, p := range g.parts {
		ready += p.Ready
		under += p.Firing
		retrying += p.Retrying
	}
	return ready, under, retrying
}

// mayBegin reports whether a receiver of the group would take a task now. In order, it is the receiver of the earliest
// task. Otherwise a permit would wait here for a consumer or a receiver, while the group waits for the permit.
func (g *group) mayBegin() bool {
	switch head := g.head(); {
	case g.queue.isShut() || head == nil:
		return false
	case g.queue.policy.GetFifo():
		return head.lane.takes()
	}
	return slices.ContainsFunc(g.parts, func(some *part) bool { return some.Ready > 0 && some.lane.takes() })
}

// takes reports whether the lane's receiver takes tasks: a consumer asks for some, or no open breaker is in between.
func (l *lane) takes() bool {
	if l.Pulled {
		return l.isAsked()
	}
	return !l.isStranded() && !l.throttle.Open()
}
