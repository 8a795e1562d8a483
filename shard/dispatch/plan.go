package dispatch

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// The limits of one entry, so that it is soon applied.
const (
	maxGrants   = 1024 // tasks
	maxCredits  = 64   // lanes in an Advance
	maxLooks    = 4096 // lanes looked at for an entry
	maxGrantOps = 256  // Grant commands
	minAdvance  = 64   // attempts that an Advance may begin
	maxAdvance  = 2048
)

// Plan is the work that one entry may begin.
type Plan struct {
	Isolations []*fsmpb.Isolate // before the grants
	Grants     []*fsmpb.Grant   // for waiting tasks; their policy is not set
	// The fields below are for an entry with an Advance.
	Credits  []*fsmpb.LaneCredit
	Window   uint32 // attempts under way in a lane without a credit
	Attempts uint32 // attempts that the Advance may begin, over all pushed lanes
}

// Plan plans an entry, after the caller has reported all attempts that the entry settles. advance is set if the entry
// holds an Advance.
func (p *Planner) Plan(now time.Time, advance bool) Plan {
	p.turnTo(now)
	plan := Plan{Grants: p.grants()}
	plan.Isolations = p.receivers.takeIsolations()
	p.waited = len(plan.Grants) > 0
	if advance {
		plan.Window, plan.Attempts = p.window()
		plan.Credits = p.credits()
	}
	return plan
}

// planning is the state of one plan's making.
type planning struct {
	*Planner
	left   int  // tasks that may still be granted
	turn   int  // of those, tasks of the namespace whose turn it is
	rests  bool // the namespaces of the last burst are left out
	grants []*fsmpb.Grant
}

func (p *planning) isFull() bool { return p.left <= 0 || len(p.grants) >= maxGrantOps }

// grants returns a Grant for each lane where tasks wait and attempts may begin. It counts the places that the settles
// of the same entry free.
func (p *Planner) grants() []*fsmpb.Grant {
	p.wakeSleepers()
	p.wakeHeldBack()
	g := &planning{Planner: p, left: p.backlog.room(p.now), rests: p.backlog.isResting(p.now)}
	if p.serveFirst {
		g.serve()
	}
	g.lookAround()
	g.serve()
	p.serveFirst = !p.serveFirst && g.isFull() && p.serving.len() > 0
	return g.grants
}

// lookAround looks at the woken lanes, by turns of their namespaces. A look takes a lane off the woken ones or grants a
// task. Its price is the tasks that it grants, and at least one.
func (p *planning) lookAround() {
	for looks := 0; looks < maxLooks && !p.isFull(); looks++ {
		lanes := p.nextWoken(p.rests)
		if lanes == nil {
			return
		}
		p.turn = p.left
		if p.woken.Names() > 1 {
			p.turn = min(turn*p.woken.Weights.Of(lanes.Name()), p.left)
		}
		before := p.left
		p.look(p.takeWoken(lanes))
		p.woken.Charge(lanes, float64(max(before-p.left, 1)))
	}
}

// look grants the attempts that a lane may begin. A shut or stranded lane is woken when that state ends.
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

// room returns the number of a lane's ready tasks that may begin now, apart from limits of the queue.
func (p *planning) room(l *lane) int {
	ready := l.Ready - l.draft.granted
	switch {
	case l.Ready == 0:
		return 0
	case l.Pulled:
		return min(ready, p.wishes(l))
	}
	room, until := p.throttled(l)
	if !until.IsZero() {
		p.asleep.add(l, until)
	}
	room = min(room, ready)
	if most := p.spaces.room(l); room > most {
		room = most
		p.holdBack(l)
	}
	return room
}

// grant makes Grants for up to n tasks and returns the number of tasks granted.
func (p *planning) grant(l *lane, n int) int {
	n = min(n, p.left, p.turn)
	if n <= 0 || p.isFull() {
		return 0
	}
	if l.parts == nil {
		p.add(l, l.Lane, n)
		return n
	}
	granted := 0
	for granted < n && !p.isFull() {
		p.lapse(l.parts)
		part, some := l.parts.grant(n - granted)
		if some == 0 {
			break
		}
		p.add(l, part.Lane, some)
		granted += some
	}
	return granted
}

// add adds Grants for n tasks to the plan: of the lane, or of one of its parts.
func (p *planning) add(l *lane, of task.Lane, n int) {
	p.left -= n
	p.enter(l)
	l.draft.granted += n
	inOrder := of.Group != "" && l.queue.policy.GetFifo()
	if !l.Pulled {
		p.spaces.countBegun(l.queue.space, n)
		p.grants = append(p.grants, &fsmpb.Grant{Lane: laneOf(of), Max: uint32(n), InOrder: inOrder, Turn: p.turnOf(l, n)})
		return
	}
	p.useWishes(l, n, func(w desk.Wish, n int) {
		p.grants = append(p.grants, &fsmpb.Grant{
			Lane: laneOf(of), Max: uint32(n), InOrder: inOrder,
			LeaseMs: w.Lease.Milliseconds(), Tag: w.Tag, Holder: w.Holder,
		})
	})
}

// serve gives the permits of limited queues to the lanes in their lines. A queue whose line fills the plan is the first
// of the next plan.
func (p *planning) serve() {
	p.turn = p.left
	queues := p.serving
	p.serving.members = nil
	for range queues.len() {
		if p.isFull() {
			break
		}
		switch q := queues.take(); {
		case q.permits == nil || q.isShut():
		case p.rests && q.space.resting:
			queues.add(q)
		default:
			p.serveLine(q)
		}
	}
	p.serving.members = append(p.serving.members, queues.members...)
}

// serveLine gives a queue's permits to the lanes in its lines, in turn, those with the best priority first. Each lane
// gets its share of the permits left.
func (p *planning) serveLine(q *queue) {
	free := q.permits.Free(p.now)
	for free > 0 && !p.isFull() {
		l, beside := q.lines.take()
		if l == nil {
			return
		}
		share := (free + beside) / (beside + 1)
		room := p.room(l)
		n := p.grant(l, min(room, share))
		free -= n
		p.enter(l)
		p.setWish(l, room-n)
	}
	if p.isFull() {
		p.serveLater(q)
	}
}

// wishes returns the number of tasks that a lane's consumers still ask for.
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

// useWishes takes n tasks off the wishes of a lane's consumers, in their order, and calls use for each part.
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

// window returns the number of attempts that an Advance may have under way in a lane without a credit, and the number
// that it may begin in all. The node's other shards may begin as many at the same time, so they are few where the crowd
// is nearly full.
func (p *Planner) window() (ofLane, attempts uint32) {
	open := p.spaces.crowd.open()
	if open > 0 {
		ofLane = uint32(p.cfg.Throttle.Start)
	}
	return ofLane, uint32(min(max(open/8, minAdvance), maxAdvance))
}

// credits returns the credits of an Advance: the wishes of consumers, and the lanes where more or fewer attempts may
// begin than the plan's window. An Advance grants no task in lanes of held queues. A grant that meets an open breaker
// is given back.
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
			room, _ := p.throttled(l)
			p.enter(l)
			l.draft.granted += room
			credits = append(credits, &fsmpb.LaneCredit{Lane: laneOf(l.Lane), Grants: uint32(room)})
		}
		return true
	})
	return credits
}

func laneOf(l task.Lane) *fsmpb.Lane {
	return &fsmpb.Lane{
		Namespace: l.Namespace, Queue: l.Queue, Destination: l.Destination, Path: l.Path, Group: l.Group,
	}
}
