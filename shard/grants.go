package shard

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// What one entry grants and names at most: it keeps one apply short.
const (
	maxGrants   = 1024 // tasks
	maxCredits  = 64   // lanes in an Advance
	maxLooks    = 4096 // lanes looked at for an entry
	maxGrantOps = 256  // Grant commands
)

// granter gathers the Grants of one entry.
type granter struct {
	book *book
	now  time.Time
	left int // tasks
	// strangers is how many of them may be for receivers that are not known to be well.
	strangers int
	grants    []*fsmpb.Grant
}

func (g *granter) full() bool { return g.left <= 0 || len(g.grants) >= maxGrantOps }

// grants returns a Grant for each lane where tasks wait and attempts may begin, counting what the settles of the same
// entry free.
func (b *book) grants() []*fsmpb.Grant {
	now := time.Now()
	b.wake(now)
	b.letIn()
	g := &granter{book: b, now: now, left: b.pacing.room(now), strangers: b.strangers()}
	marked := b.marked[:min(len(b.marked), maxLooks)]
	b.marked = b.marked[len(marked):]
	for i, l := range marked {
		if g.full() {
			b.marked = append(marked[i:], b.marked...)
			break
		}
		l.marked = false
		g.look(l)
	}
	g.serve()
	return g.grants
}

// look grants what a lane may begin.
func (g *granter) look(l *lane) {
	b := g.book
	switch q := l.queue; {
	case q.isShut(), l.isStranded(): // it is looked at again when that ends
		b.leaveLine(l)
	case q.permits != nil:
		b.setWish(l, g.room(l))
	default:
		if n := g.room(l); g.grant(l, n) < n {
			b.mark(l) // the rest is for the next entry
		}
	}
}

// room is how many of a lane's ready tasks may begin now, limits of the queue aside.
func (g *granter) room(l *lane) int {
	b := g.book
	if l.Ready == 0 {
		return 0
	}
	if l.Pulled {
		return min(l.Ready-l.granted, b.asked(l))
	}
	room, until := l.throttle.Room(g.now, l.inFlight())
	if !until.IsZero() {
		b.doze(l, until)
	}
	room = min(room, l.Ready-l.granted)
	if room > g.strangers && !l.throttle.IsWell() {
		room = g.strangers
		if !l.outside {
			l.outside = true
			b.outside = append(b.outside, l)
		}
	}
	return room
}

// grant makes Grants for up to n tasks, and returns how many it could.
func (g *granter) grant(l *lane, n int) int {
	n = min(n, g.left)
	if n <= 0 || g.full() {
		return 0
	}
	g.left -= n
	g.book.enter(l)
	l.granted += n
	if !l.Pulled {
		g.strangers = max(g.strangers-n, 0)
		g.grants = append(g.grants, &fsmpb.Grant{Lane: laneOf(l.Lane), Max: uint32(n)})
		return n
	}
	g.book.useDemands(l, n, func(d desk.Wish, n int) {
		g.grants = append(g.grants, &fsmpb.Grant{
			Lane: laneOf(l.Lane), Max: uint32(n), LeaseMs: d.Lease.Milliseconds(), Tag: d.Tag, Holder: d.Holder,
		})
	})
	return n
}

// serve hands the permits of limited queues to the lanes in their lines, in turn.
func (g *granter) serve() {
	b := g.book
	servable := b.servable
	b.servable = nil
	for i, q := range servable {
		if g.full() {
			b.servable = append(b.servable, servable[i:]...)
			return
		}
		q.servable = false
		if q.permits != nil && !q.isShut() {
			g.serveQueue(q)
		}
	}
}

func (g *granter) serveQueue(q *laneQueue) {
	free := q.permits.Free()
	for free > 0 && len(q.line) > 0 && !g.full() {
		l := q.line[0]
		q.line = q.line[1:]
		l.inLine = false
		share := (free + len(q.line)) / (len(q.line) + 1)
		room := g.room(l)
		n := g.grant(l, min(room, share))
		free -= n
		g.book.enter(l)
		g.book.setWish(l, room-n)
		if room > n && !l.inLine {
			l.inLine = true
			q.line = append(q.line, l)
		}
	}
	if g.full() {
		g.book.serveLater(q)
	}
}

// asked returns how many tasks a lane's consumers still ask for.
func (b *book) asked(l *lane) int {
	if !l.asked {
		b.enter(l)
		l.demands, l.asked = b.lead.desk.Wishes(l.Lane), true
	}
	n := 0
	for _, d := range l.demands {
		n += d.Max
	}
	return n
}

// useDemands uses up n tasks of what a lane's consumers ask for, in their order.
func (b *book) useDemands(l *lane, n int, use func(desk.Wish, int)) {
	for n > 0 && b.asked(l) > 0 {
		d := &l.demands[0]
		if part := min(n, d.Max); part > 0 {
			use(*d, part)
			d.Max -= part
			n -= part
		}
		if d.Max == 0 {
			l.demands = l.demands[1:]
		}
	}
}

// credits returns what an Advance must be told of lanes: what consumers ask for, and where more or less may begin than
// it assumes. Lanes of held queues get nothing from an Advance, and what it grants against a breaker is given back.
func (b *book) credits() []*fsmpb.LaneCredit {
	now := time.Now()
	var credits []*fsmpb.LaneCredit
	b.consumed.walk(maxCredits, func(l *lane) bool {
		if !l.queue.isShut() && l.queue.permits == nil && l.Pulled {
			n := b.pacing.credit(now, b.asked(l), l.Ready-l.granted)
			b.useDemands(l, n, func(d desk.Wish, n int) {
				credits = append(credits, &fsmpb.LaneCredit{
					Lane: laneOf(l.Lane), Grants: uint32(n), LeaseMs: d.Lease.Milliseconds(), Tag: d.Tag, Holder: d.Holder,
				})
			})
		}
		return len(credits) < maxCredits
	})
	b.special.walk(maxCredits-len(credits), func(l *lane) bool {
		if room, _ := l.throttle.Room(now, l.inFlight()); l.queue.permits == nil && !l.queue.isShut() {
			b.enter(l)
			l.granted += room
			credits = append(credits, &fsmpb.LaneCredit{Lane: laneOf(l.Lane), Grants: uint32(room)})
		}
		return true
	})
	return credits
}

// window is how many attempts an Advance may have under way in a lane of which it is told nothing.
func (b *book) window() uint32 {
	if b.strangers() == 0 {
		return 0
	}
	return b.shard.cfg.Policy.Window
}

// applied takes what an entry did to the lanes, and returns its grants: those that stand, and those that must be given
// back, because the lane's gate was closed when the machine did not know it yet. Grants that a Takeover renewed stand:
// their attempts may have begun long ago.
func (b *book) applied(loads []task.LaneLoad, grants []task.Grant, renewed bool) (stand, back []task.Grant) {
	for _, g := range grants {
		if renewed || b.admit(g) {
			stand = append(stand, g)
		} else {
			back = append(back, g)
		}
	}
	b.leaveEntry()
	for _, load := range loads {
		b.update(load)
	}
	b.report()
	return stand, back
}

// admit tells whether a grant may be started.
func (b *book) admit(g task.Grant) bool {
	l := b.open(g.Lane)
	switch q := l.queue; {
	case q.isShut(), l.isStranded():
		return false
	case q.permits != nil:
		return q.permits.Take()
	case g.Tag == 0 && l.throttle.Open() && l.granted == 0:
		return false
	}
	b.enter(l)
	l.granted = max(l.granted-1, 0)
	return true
}

// pending tells whether something may be granted by the next entry.
func (b *book) pending() bool {
	return len(b.marked)+len(b.servable) > 0 || len(b.outside) > 0 && b.strangers() > 0
}
