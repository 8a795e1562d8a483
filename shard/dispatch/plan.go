package dispatch

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// What one entry grants and names at most, so that it is applied soon.
const (
	maxGrants   = 1024 // tasks
	maxCredits  = 64   // lanes in an Advance
	maxLooks    = 4096 // lanes looked at for an entry
	maxGrantOps = 256  // Grant commands
)

// Plan is what one entry may begin.
type Plan struct {
	Grants []*fsmpb.Grant // of tasks that wait; their policy is not set
	// Of an entry with an Advance.
	Credits []*fsmpb.LaneCredit
	Window  uint32 // attempts under way in a lane of which the Credits say nothing
}

// Plan plans an entry, once all attempts that it settles have been told. advance says that the entry holds an Advance.
func (p *Planner) Plan(now time.Time, advance bool) Plan {
	p.turnTo(now)
	plan := Plan{Grants: p.grants()}
	p.waited = len(plan.Grants) > 0
	if advance {
		plan.Window, plan.Credits = p.window(), p.credits()
	}
	return plan
}

// planning is the making of one plan's Grants.
type planning struct {
	*Planner
	left      int // tasks that may still be granted,
	strangers int // and how many of them to receivers that are not known to be well
	grants    []*fsmpb.Grant
}

func (p *planning) isFull() bool { return p.left <= 0 || len(p.grants) >= maxGrantOps }

// grants returns a Grant for each lane where tasks wait and attempts may begin, counting the places that the settles of
// the same entry free.
func (p *Planner) grants() []*fsmpb.Grant {
	p.wakeSleepers()
	p.wakeHeldBack()
	g := &planning{Planner: p, left: p.backlog.room(p.now), strangers: p.strangers()}
	for range min(p.woken.len(), maxLooks) {
		if g.isFull() {
			break
		}
		g.look(p.woken.take())
	}
	g.serve()
	return g.grants
}

// look grants what a lane may begin. A lane that is shut or stranded is woken when that ends.
func (p *planning) look(l *lane) {
	switch q := l.queue; {
	case q.isShut(), l.isStranded():
		p.setWish(l, 0)
	case q.permits != nil:
		p.setWish(l, p.room(l))
	default:
		if n := p.room(l); p.grant(l, n) < n {
			p.wake(l) // the rest is for the next entry
		}
	}
}

// room returns how many of a lane's ready tasks may begin now, limits of the queue aside.
func (p *planning) room(l *lane) int {
	ready := l.Ready - l.draft.granted
	switch {
	case l.Ready == 0:
		return 0
	case l.Pulled:
		return min(ready, p.wishes(l))
	}
	room, until := l.throttle.Room(p.now, l.inFlight())
	if !until.IsZero() {
		p.asleep.add(l, until)
	}
	room = min(room, ready)
	if room > p.strangers && !l.throttle.IsWell() {
		room = p.strangers
		p.heldBack.add(l)
	}
	return room
}

// grant makes Grants for up to n tasks, and returns for how many it could.
func (p *planning) grant(l *lane, n int) int {
	n = min(n, p.left)
	if n <= 0 || p.isFull() {
		return 0
	}
	p.left -= n
	p.enter(l)
	l.draft.granted += n
	if !l.Pulled {
		p.strangers = max(p.strangers-n, 0)
		p.grants = append(p.grants, &fsmpb.Grant{Lane: laneOf(l.Lane), Max: uint32(n)})
		return n
	}
	p.useWishes(l, n, func(w desk.Wish, n int) {
		p.grants = append(p.grants, &fsmpb.Grant{
			Lane: laneOf(l.Lane), Max: uint32(n), LeaseMs: w.Lease.Milliseconds(), Tag: w.Tag, Holder: w.Holder,
		})
	})
	return n
}

// serve hands the permits of limited queues to the lanes in their lines. A queue whose line fills the plan is the first
// of the next one.
func (p *planning) serve() {
	queues := p.serving
	p.serving.members = nil
	for queues.len() > 0 && !p.isFull() {
		if q := queues.take(); q.permits != nil && !q.isShut() {
			p.serveLine(q)
		}
	}
	p.serving.members = append(p.serving.members, queues.members...)
}

// serveLine hands a queue's permits to the lanes in its line, in turn: each gets its share of those that are left.
func (p *planning) serveLine(q *queue) {
	free := q.permits.Free(p.now)
	for free > 0 && q.line.len() > 0 && !p.isFull() {
		share := (free + q.line.len() - 1) / q.line.len()
		l := q.line.take()
		room := p.room(l)
		n := p.grant(l, min(room, share))
		free -= n
		p.enter(l)
		p.setWish(l, room-n)
		if room > n {
			q.line.add(l)
		}
	}
	if p.isFull() {
		p.serveLater(q)
	}
}

// wishes returns how many tasks a lane's consumers still ask for.
func (p *Planner) wishes(l *lane) int {
	if !l.draft.known {
		p.enter(l)
		l.draft.wishes, l.draft.known = p.cfg.Desk.Wishes(l.Lane), true
	}
	n := 0
	for _, w := range l.draft.wishes {
		n += w.Max
	}
	return n
}

// useWishes uses up n tasks of what a lane's consumers ask for, in their order.
func (p *Planner) useWishes(l *lane, n int, use func(desk.Wish, int)) {
	for n > 0 && p.wishes(l) > 0 {
		w := &l.draft.wishes[0]
		if part := min(n, w.Max); part > 0 {
			use(*w, part)
			w.Max -= part
			n -= part
		}
		if w.Max == 0 {
			l.draft.wishes = l.draft.wishes[1:]
		}
	}
}

// window returns how many attempts an Advance may have under way in a lane of which it is told nothing.
func (p *Planner) window() uint32 {
	if p.strangers() == 0 {
		return 0
	}
	return uint32(p.cfg.Throttle.Start)
}

// credits returns what an Advance must be told of lanes: what consumers ask for, and where more or less may begin than
// its window says. An Advance grants nothing in lanes of held queues; a grant that meets an open breaker is given back.
func (p *Planner) credits() (credits []*fsmpb.LaneCredit) {
	p.asked.walk(maxCredits, func(l *lane) bool {
		if !l.queue.isShut() && l.queue.permits == nil && l.Pulled {
			n := p.backlog.credit(p.now, p.wishes(l), l.Ready-l.draft.granted)
			p.useWishes(l, n, func(w desk.Wish, n int) {
				credits = append(credits, &fsmpb.LaneCredit{
					Lane: laneOf(l.Lane), Grants: uint32(n), LeaseMs: w.Lease.Milliseconds(), Tag: w.Tag, Holder: w.Holder,
				})
			})
		}
		return len(credits) < maxCredits
	})
	p.unusual.walk(maxCredits-len(credits), func(l *lane) bool {
		if l.queue.permits == nil && !l.queue.isShut() {
			room, _ := l.throttle.Room(p.now, l.inFlight())
			p.enter(l)
			l.draft.granted += room
			credits = append(credits, &fsmpb.LaneCredit{Lane: laneOf(l.Lane), Grants: uint32(room)})
		}
		return true
	})
	return credits
}

func laneOf(l task.Lane) *fsmpb.Lane {
	return &fsmpb.Lane{Namespace: l.Namespace, Queue: l.Queue, Destination: l.Destination}
}
