package dispatch

import (
	"cmp"
	"container/heap"
	"math"

	"github.com/belfryhq/belfry/fsm/task"
)

// part is one lane of the machine within a receiver's lane: the tasks of one group, or those without a group. A lane
// without grouped tasks has no parts.
type part struct {
	task.LaneLoad        // after the last applied entry
	lane          *lane  // of the receiver
	group         *group // nil: nothing limits the group
	granted       int    // by the entry being made
	counted       int    // tasks that it adds to the lane's Ready: those that may begin, and those granted

	turn  int64 // of its next grant, in a fair queue
	order int64 // breaks ties: the part that came first
	at    int   // index in parts.queue; -1: no task may begin
	place int   // index in parts.all
}

// parts holds the parts of one receiver. Those with a task that may begin take turns.
type parts struct {
	byGroup map[string]*part // "": the tasks without a group
	all     []*part
	queue   partHeap // parts with a task that may begin
	drafted []*part  // parts with grants in the entry being made
	waiting int      // ready tasks, whether they may begin or not
	passed  int64    // turn of the last grant
	came    int64    // parts made so far
}

// unit is the part of a turn that one grant takes at weight 1. It is divisible by most weights.
const unit = 5040

// most is the number of tasks that a part without a weight may get before the others.
const most = 8

// left returns the number of tasks that may still begin.
func (p *part) left() int {
	n := p.Ready - p.granted
	if p.group != nil {
		n = min(n, p.group.permitsFor(p))
	}
	return max(n, 0)
}

// next returns the priority of the next task, and how many tasks of that priority are left.
func (p *part) next() (priority, n int) {
	skip := p.granted
	for i, waiting := range p.Waiting {
		if n := int(waiting) - skip; n > 0 {
			return i + task.FirstPriority, n
		}
		skip -= min(skip, int(waiting))
	}
	return task.LastPriority, 1
}

// priority returns the best priority of the lane's tasks that may begin.
func (l *lane) priority() int {
	if l.parts == nil {
		return bestOf(l.Waiting)
	}
	if len(l.parts.queue) == 0 {
		return task.LastPriority
	}
	priority, _ := l.parts.queue[0].next()
	return priority
}

// bestOf returns the best priority of waiting tasks.
func bestOf(waiting [task.LastPriority]int32) int {
	for i, n := range waiting {
		if n > 0 {
			return i + task.FirstPriority
		}
	}
	return task.LastPriority
}

// waiting returns the number of the lane's ready tasks, those without permits included.
func (l *lane) waiting() int {
	if l.parts == nil {
		return l.Ready
	}
	return l.parts.waiting
}

// weight returns the part's share of the turns in a fair queue, and 0 in other queues.
func (p *part) weight() int {
	policy := p.lane.queue.policy
	if !policy.GetFair() {
		return 0
	}
	return task.GroupWeight(policy, p.Lane.Group)
}

// split gives the lane parts, because a task with a group has come to the receiver.
func (l *lane) split() {
	own := l.LaneLoad
	l.parts = &parts{byGroup: map[string]*part{}}
	l.Ready, l.Retrying = 0, 0
	if own.Ready+own.Firing+own.Retrying > 0 {
		l.partOf("").set(own)
	}
}

// merge makes a lane one without parts again, if no task with a group is left.
func (l *lane) merge() {
	own := task.LaneLoad{Lane: l.Lane, Pulled: l.Pulled, Isolated: l.Isolated}
	switch ps := l.parts; {
	case len(ps.all) > 1 || len(ps.all) == 1 && ps.all[0].Lane.Group != "":
		return
	case len(ps.all) == 1:
		own = ps.all[0].LaneLoad
	}
	l.LaneLoad, l.parts = own, nil
}

// partOf returns a part of the lane and makes it if there is none.
func (l *lane) partOf(name string) *part {
	ps := l.parts
	if part, ok := ps.byGroup[name]; ok {
		return part
	}
	ps.came++
	made := &part{lane: l, order: ps.came, at: -1, place: len(ps.all)}
	made.Lane = l.Lane
	made.Lane.Group = name
	ps.byGroup[name] = made
	ps.all = append(ps.all, made)
	made.joinGroup()
	return made
}

// updatePart sets the load of a part after an entry, and forgets a part without tasks.
func (p *Planner) updatePart(l *lane, load task.LaneLoad) {
	if l.parts == nil {
		l.split()
	}
	part := l.partOf(load.Lane.Group)
	before := part.LaneLoad
	l.Firing += load.Firing - before.Firing
	part.set(load)
	if part.group != nil {
		p.follow(part.group, before, load)
	}
	if load.Ready+load.Firing+load.Retrying == 0 {
		part.leaveGroup()
		l.parts.remove(part)
	}
	l.merge()
}

func (ps *parts) remove(p *part) {
	last := ps.all[len(ps.all)-1]
	ps.all[p.place], last.place = last, p.place
	ps.all[len(ps.all)-1] = nil
	ps.all = ps.all[:len(ps.all)-1]
	delete(ps.byGroup, p.Lane.Group)
}

// set sets the load of a part.
func (p *part) set(load task.LaneLoad) {
	p.lane.parts.waiting += load.Ready - p.Ready
	p.LaneLoad = load
	p.file()
}

// file counts the tasks of a part that may begin, and puts the part where its next grant belongs.
func (p *part) file() {
	left, ps := p.left(), p.lane.parts
	p.lane.Ready += left + p.granted - p.counted
	p.counted = left + p.granted
	switch {
	case left == 0 && p.at >= 0:
		heap.Remove(&ps.queue, p.at)
	case left == 0:
	case p.at < 0:
		p.turn = max(p.turn, ps.passed)
		heap.Push(&ps.queue, p)
	default:
		heap.Fix(&ps.queue, p.at)
	}
}

// grant grants up to n tasks of the part whose turn it is. It returns the part and the number of tasks, or 0 if no task
// may begin.
func (ps *parts) grant(n int) (_ *part, granted int) {
	if len(ps.queue) == 0 {
		return nil, 0
	}
	p := ps.queue[0]
	_, alike := p.next()
	n = min(n, alike, p.left(), p.stride())
	p.take(n)
	return p, n
}

// stride returns the number of tasks that a part gets in one turn.
func (p *part) stride() int { return max(p.weight(), 1) * most }

// take grants n tasks of the part in the entry being made, and moves its turn behind.
func (p *part) take(n int) {
	ps := p.lane.parts
	if p.granted == 0 {
		ps.drafted = append(ps.drafted, p)
	}
	p.granted += n
	ps.passed = max(ps.passed, p.turn)
	p.turn += int64(n) * unit / int64(max(p.weight(), 1))
	if p.group != nil {
		p.group.use(n)
	}
	p.file()
}

// endDraft forgets the grants of the entry, because the loads contain them now.
func (ps *parts) endDraft() {
	for i, p := range ps.drafted {
		ps.drafted[i] = nil
		p.granted = 0
		p.file()
	}
	ps.drafted = ps.drafted[:0]
}

// key returns the part's place among the parts of its priority.
func (p *part) key() int64 {
	switch {
	case p.weight() > 0:
		return p.turn
	case p.granted > 0:
		return math.MaxInt64 // the due time of its next task is not known
	}
	return p.FirstMs
}

func (p *part) compare(other *part) int {
	a, _ := p.next()
	b, _ := other.next()
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(p.key(), other.key()), cmp.Compare(p.order, other.order))
}

// partHeap is a heap of parts, the one with the next grant first.
type partHeap []*part

func (h partHeap) Len() int           { return len(h) }
func (h partHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h partHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *partHeap) Push(x any) {
	p := x.(*part)
	p.at = len(*h)
	*h = append(*h, p)
}
func (h *partHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.at = -1
	return p
}
