package dispatch

import (
	"slices"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
)

// space is the planner's record of a namespace with queues.
type space struct {
	name   string
	queues int // records of its queues; the space is forgotten with the last one

	begun int // pushed attempts that the entry being made begins

	burst   int  // tasks granted since the backlog's start or last rest
	resting bool // the last burst had at least burst/4 tasks of this namespace, or it is the only one

	membership
}

// spaces holds the namespaces with queues, and the attempts that the entry being made begins.
type spaces struct {
	byName    map[string]*space
	crowd     *Crowd       // of the node
	begun     int          // pushed attempts that the entry being made begins: the sum over the namespaces
	beginning fifo[*space] // the namespaces of these attempts
}

func newSpaces(crowd *Crowd) spaces {
	return spaces{byName: map[string]*space{}, crowd: crowd, beginning: fifo[*space]{set: beginning}}
}

// turn is the number of tasks that a namespace may grant in one look at a lane while lanes of others are woken too, for
// each unit of its weight.
const turn = 32

// nextWoken returns the woken lanes of the namespace whose turn it is, or nil if no lane is woken. With fresh set, it
// passes over the resting namespaces.
func (p *Planner) nextWoken(fresh bool) *admission.Line[*lane] {
	if !fresh {
		return p.woken.Next()
	}
	return p.woken.NextOf(func(name string) bool {
		s := p.spaces.byName[name]
		return s == nil || !s.resting
	})
}

// takeWoken removes and returns the first of a namespace's woken lanes.
func (p *Planner) takeWoken(of *admission.Line[*lane]) *lane {
	l := p.woken.Take(of)
	l.membership &^= woken
	return l
}

// open returns the record of a namespace and creates it if there is none.
func (ss *spaces) open(name string) *space {
	s, ok := ss.byName[name]
	if !ok {
		s = &space{name: name}
		ss.byName[name] = s
	}
	return s
}

// leave removes a queue from its namespace, and forgets the namespace with its last queue.
func (ss *spaces) leave(s *space) {
	if s.queues--; s.queues == 0 {
		delete(ss.byName, s.name)
	}
}

// room returns how many more attempts of a lane may begin beside all others of the node.
func (ss *spaces) room(l *lane) int {
	return ss.crowd.room(l.queue.QueueName, l.throttle.IsWell(), ss.begun, l.queue.space.begun)
}

// holdBack makes a lane wait until fewer attempts are under way.
func (p *Planner) holdBack(l *lane) {
	l.queue.heldBack.add(l)
	p.holding.add(l.queue)
}

// wakeHeldBack wakes as many held-back lanes as may begin an attempt. The queues take turns, so that each gets a part
// of the room, and one with few attempts does not wait behind one that fills the room.
func (p *Planner) wakeHeldBack() {
	left := p.spaces.crowd.left(p.spaces.begun)
	for range p.holding.len() {
		if left <= 0 {
			return
		}
		q := p.holding.take()
		n := min(q.heldBack.len(), p.spaces.room(q.heldBack.members[0]), left)
		for range n {
			p.wake(q.heldBack.take())
		}
		left -= n
		if q.heldBack.len() > 0 {
			p.holding.add(q)
		}
	}
}

// mayWake reports whether wakeHeldBack would wake a lane.
func (p *Planner) mayWake() bool {
	return p.spaces.crowd.left(p.spaces.begun) > 0 &&
		slices.ContainsFunc(p.holding.members, func(q *queue) bool { return p.spaces.room(q.heldBack.members[0]) > 0 })
}

// countBegun counts pushed attempts that the entry being made begins.
func (ss *spaces) countBegun(s *space, n int) {
	ss.begun += n
	s.begun += n
	if n > 0 {
		ss.beginning.add(s)
	}
}

// forgetBegun clears the counts of countBegun, because the loads now contain the entry's attempts.
func (ss *spaces) forgetBegun() {
	ss.begun = 0
	ss.beginning.drain(func(s *space) { s.begun = 0 })
}

// isFresh reports whether a plan during a rest may grant a task, of a namespace that does not rest.
func (p *Planner) isFresh() bool {
	if p.nextWoken(true) != nil {
		return true
	}
	for _, q := range p.serving.members {
		if !q.space.resting {
			return true
		}
	}
	return false
}

// attribute counts an entry's grants for the bursts of their namespaces.
func (ss *spaces) attribute(grants []task.Grant) {
	if len(ss.byName) < 2 {
		return // the only namespace makes every burst
	}
	for _, g := range grants {
		if s := ss.byName[g.Lane.Namespace]; s != nil {
			s.burst++
		}
	}
}

// endBurst begins a rest of the namespaces that made the burst, or resets the bursts if there was no backlog.
func (ss *spaces) endBurst(rests bool) {
	for _, s := range ss.byName {
		if rests {
			s.resting = len(ss.byName) == 1 || s.burst >= burst/4
		}
		s.burst = 0
	}
}
