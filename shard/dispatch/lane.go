package dispatch

import (
	"container/list"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/dispatch/throttle"
)

// maxIdleLanes is how many lanes without a task are remembered for the sake of their throttles.
const maxIdleLanes = 1024

// lane is the planner's record of one receiver's line of tasks. A load of zeros says that no task is due there.
type lane struct {
	task.LaneLoad // after the last applied entry
	queue         *queue
	throttle      throttle.Throttle // of a pushed lane
	wish          int               // of a limited queue: attempts that could begin, counted in queue.want
	draft         draft

	membership
	places [rings]int32  // its place in each ring, from 1 on; 0: it is not in it
	idle   *list.Element // in Planner.idle; nil: a task is due, or a consumer asks
}

// draft is what the entry being made does to a lane. It is zero between two entries.
type draft struct {
	freed, granted int         // attempts that end, and that may begin
	wishes         []desk.Wish // what consumers still ask for, once it is known
	known          bool
}

// isPulledByPolicy reports whether consumers will get the lane's tasks. Of a lane with tasks the machine says so.
func (l *lane) isPulledByPolicy() bool {
	return l.Lane.Destination == "" && l.queue.policy.GetTarget() == nil
}

// isStranded reports whether the lane is pushed to a target of its queue's that is gone. The shard's rules will say so
// in a moment: then consumers pull its tasks.
func (l *lane) isStranded() bool { return !l.Pulled && l.isPulledByPolicy() }

func (l *lane) isEmpty() bool { return l.Ready == 0 && l.Firing == 0 }

// pushed returns how many attempts are under way, not counting consumers'.
func (l *lane) pushed() int {
	if l.Pulled {
		return 0
	}
	return l.Firing
}

// inFlight returns how many attempts are under way once the entry being made has been applied.
func (l *lane) inFlight() int { return max(l.Firing-l.draft.freed, 0) + l.draft.granted }

// open returns the record of a lane, a new one if there is none.
func (p *Planner) open(key task.Lane) *lane {
	if l, ok := p.lanes[key]; ok {
		return l
	}
	l := &lane{LaneLoad: task.LaneLoad{Lane: key}, queue: p.queueOf(key), throttle: throttle.New(p.cfg.Throttle)}
	l.Pulled = l.isPulledByPolicy()
	l.queue.lanes.set(l, true)
	p.lanes[key] = l
	return l
}

// update takes a lane's load after an entry.
func (p *Planner) update(load task.LaneLoad) {
	if load.Ready < 0 || load.Firing < 0 {
		panic("dispatch: a lane holds less than nothing")
	}
	if _, ok := p.lanes[load.Lane]; !ok && load.Ready == 0 && load.Firing == 0 {
		return
	}
	l := p.open(load.Lane)
	l.queue.firing += load.Firing - l.Firing
	p.firing += load.Firing - l.Firing
	p.pushed -= l.pushed()
	l.LaneLoad = load
	p.pushed += l.pushed()
	p.touch(l.queue)
	p.wake(l)
	p.review(l)
}

// review puts a lane where its load belongs, and forgets a lane without tasks of whose receiver nothing is known.
func (p *Planner) review(l *lane) {
	p.unusual.set(l, p.isUnusual(l))
	switch {
	case !l.isEmpty() || p.asked.has(l):
		p.rouse(l)
	case l.throttle.Fresh(p.cfg.Throttle, p.now):
		p.close(l)
	case l.idle == nil:
		l.idle = p.idle.PushBack(l)
		if p.idle.Len() > maxIdleLanes {
			p.close(p.idle.Front().Value.(*lane))
		}
	}
}

// isUnusual reports whether an Advance that is not told of a lane would begin more, or fewer, of its attempts than its
// receiver takes.
func (p *Planner) isUnusual(l *lane) bool {
	window, usual := l.throttle.Window(), p.cfg.Throttle.Start
	switch {
	case l.Pulled || l.throttle.Open():
		return false
	case window < usual:
		return l.Firing >= window
	}
	return window > usual && l.Firing >= usual/2
}

// rouse takes a lane off the idle ones.
func (p *Planner) rouse(l *lane) {
	if l.idle != nil {
		p.idle.Remove(l.idle)
		l.idle = nil
	}
}

// close forgets an empty lane.
func (p *Planner) close(l *lane) {
	p.rouse(l)
	p.unusual.set(l, false)
	p.setWish(l, 0)
	if l.throttle.Open() {
		p.broken--
	}
	delete(p.lanes, l.Lane)
	p.leaveQueue(l)
}

// wake has the next plan look at a lane, if it may have anything to begin.
func (p *Planner) wake(l *lane) {
	if l.Ready > 0 || l.isIn(inLine) {
		p.woken.add(l)
	}
}

// wakeSleepers wakes the lanes whose instants have come. It returns the next instant; ok is false if there is none.
func (p *Planner) wakeSleepers() (next time.Time, ok bool) {
	for len(p.asleep) > 0 {
		if until := p.asleep[0].until; until.After(p.now) {
			return until, true
		}
		p.wake(p.asleep.take())
	}
	return time.Time{}, false
}

// strangers returns how many more attempts may begin at receivers whose last answer was not a success.
func (p *Planner) strangers() int { return max(p.cfg.Strangers-p.pushed, 0) }

// wakeHeldBack wakes as many of the lanes held back as may begin something.
func (p *Planner) wakeHeldBack() {
	for range min(p.heldBack.len(), p.strangers()) {
		p.wake(p.heldBack.take())
	}
}

// enter notes that the entry being made changes a lane.
func (p *Planner) enter(l *lane) { p.drafted.add(l) }

// endDraft forgets what the entry did to its lanes: their loads say it now.
func (p *Planner) endDraft() {
	p.drafted.drain(func(l *lane) { l.draft = draft{} })
}
