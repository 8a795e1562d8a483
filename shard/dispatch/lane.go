package dispatch

import (
	"cmp"
	"container/list"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/internal/throttle"
)

// maxIdleLanes is the number of lanes without a task that the planner remembers for the sake of their throttles.
const maxIdleLanes = 1024

// lane is the planner's record of one receiver's line of tasks. Its load is zero while no task is due there.
type lane struct {
	task.LaneLoad // after the last applied entry; Ready counts only tasks that may begin
	queue         *queue
	parts         *parts            // nil: no task of the lane has a group
	throttle      throttle.Throttle // of a pushed lane only
	receiver      *receiver         // nil: no attempt has failed
	hung          int               // attempts that Hangs has reported
	ending        bool              // an entry ends the isolation of the path
	turn          uint32            // of the next grant while attempts fail
	lastError     string            // of the last failure
	wish          int               // in a limited queue: attempts that could begin, counted in queue.want
	draft         draft

	membership
	places [rings]int32  // the lane's place in each ring, from 1 on; 0: not in the ring
	idle   *list.Element // in Planner.idle; nil: a task is due, or a consumer asks for one
}

// draft holds the changes of the entry being made to a lane. It is zero between two entries.
type draft struct {
	freed, granted int         // attempts that end and attempts that may begin
	wishes         []desk.Wish // the consumers' open wishes, if known is set
	known          bool
}

// isPulledByPolicy reports whether consumers get the tasks of a lane, going by the policy. For a lane with tasks, the
// machine's answer counts.
func (l *lane) isPulledByPolicy() bool {
	return l.Lane.Destination == "" && l.queue.policy.GetTarget() == nil
}

// isBroker reports whether the lane's tasks are published to a broker.
func (l *lane) isBroker() bool {
	return targeturl.IsBroker(cmp.Or(l.Lane.Destination, l.queue.policy.GetTarget().GetUrl()))
}

// isStranded reports whether the lane is pushed to a target that its queue no longer has. The shard's rules follow in a
// moment, and consumers then pull the lane's tasks.
func (l *lane) isStranded() bool { return !l.Pulled && l.isPulledByPolicy() }

func (l *lane) isEmpty() bool { return l.Ready+l.Firing+l.Retrying == 0 && l.parts == nil }

// pushed returns the number of pushed attempts under way, without consumers' leases.
func (l *lane) pushed() int {
	if l.Pulled {
		return 0
	}
	return l.Firing
}

// inFlight returns the number of attempts under way after the entry being made.
func (l *lane) inFlight() int { return max(l.Firing-l.draft.freed, 0) + l.draft.granted }

// open returns the record of a lane and creates it if there is none.
func (p *Planner) open(key task.Lane) *lane {
	if l, ok := p.lanes[key]; ok {
		return l
	}
	l := &lane{LaneLoad: task.LaneLoad{Lane: key}, queue: p.queueOf(key), throttle: throttle.New(p.cfg.Throttle)}
	l.Pulled = l.isPulledByPolicy()
	l.queue.lanes.set(l, true)
	p.lanes[key] = l
	p.receivers.join(l)
	return l
}

// update sets the load of a lane, or of a group's part of it, after an entry.
func (p *Planner) update(load task.LaneLoad) {
	if load.Ready < 0 || load.Firing < 0 {
		panic("dispatch: a lane holds less than nothing")
	}
	key := load.Lane.Receiver()
	if _, ok := p.lanes[key]; !ok && load.Ready+load.Firing+load.Retrying == 0 && !load.Isolated {
		return
	}
	l := p.open(key)
	l.ending = false
	if load.Lane.Group == "" && load.Isolated != l.Isolated {
		l.Isolated = load.Isolated
		p.followIsolation(l, load.Isolated)
	}
	firing, pushed := l.Firing, l.pushed()
	p.setPulled(l, load.Pulled)
	if l.parts != nil || load.Lane.Group != "" {
		p.updatePart(l, load)
	} else {
		l.LaneLoad = load
	}
	l.hung = min(l.hung, l.Firing)
	l.queue.firing += l.Firing - firing
	p.firing += l.Firing - firing
	p.pushed += l.pushed() - pushed
	p.touch(l.queue)
	p.wake(l)
	p.review(l)
}

// setPulled sets whether consumers get a lane's tasks. A lane that becomes pulled has no receiver, and its throttle is
// forgotten: no attempt would close an open breaker.
func (p *Planner) setPulled(l *lane, pulled bool) {
	if pulled && !l.Pulled {
		p.resetThrottle(l)
	}
	l.Pulled = pulled
}

// resetThrottle forgets what is known of a lane's receiver.
func (p *Planner) resetThrottle(l *lane) {
	l.throttle = throttle.New(p.cfg.Throttle)
	p.broken.set(l, false)
}

// review files a lane by its load. It forgets a lane without tasks if nothing is known of the receiver.
func (p *Planner) review(l *lane) {
	p.unusual.set(l, l.isUnusual(p.cfg.Throttle.Start))
	switch {
	case !l.isEmpty() || l.isAsked() || l.Isolated:
		p.rouse(l)
		if l.Isolated && l.isEmpty() {
			p.restIsolated(l)
		}
	case l.throttle.Fresh(p.cfg.Throttle, p.now):
		p.close(l)
	case l.idle == nil:
		l.idle = p.idle.PushBack(l)
		if p.idle.Len() > maxIdleLanes {
			p.close(p.idle.Front().Value.(*lane))
		}
	}
}

// isAsked reports whether consumers ask for tasks of the lane.
func (l *lane) isAsked() bool { return l.places[ringAsked] > 0 }

// isUnusual reports whether an Advance without a credit for the lane would begin more, or fewer, attempts than the
// receiver takes. usual is the window that an Advance assumes.
func (l *lane) isUnusual(usual int) bool {
	window := l.throttle.Window()
	switch {
	case l.Pulled || l.throttle.Open():
		return false
	case l.parts != nil: // the machine would not count the attempts of the groups
		return true
	case window < usual:
		return l.Firing >= window
	}
	return window > usual && l.Firing >= usual/2
}

// rouse removes a lane from the idle ones.
func (p *Planner) rouse(l *lane) {
	if l.idle != nil {
		p.idle.Remove(l.idle)
		l.idle = nil
	}
}

// close deletes the record of an empty lane.
func (p *Planner) close(l *lane) {
	p.rouse(l)
	p.unusual.set(l, false)
	p.setWish(l, 0)
	p.resetThrottle(l)
	p.receivers.leave(l)
	delete(p.lanes, l.Lane)
	p.leaveQueue(l)
}

// wake makes the next plan look at a lane, if the lane may have a task to begin.
func (p *Planner) wake(l *lane) {
	if (l.Ready > 0 || l.isIn(inLine)) && !l.isIn(woken) {
		l.membership |= woken
		p.woken.Add(l.queue.space.name, l)
	}
}

// wakeSleepers wakes the lanes whose instants have come. It returns the next instant; ok is false if no lane sleeps.
func (p *Planner) wakeSleepers() (next time.Time, ok bool) {
	for len(p.asleep) > 0 {
		if until := p.asleep[0].until; until.After(p.now) {
			return until, true
		}
		l := p.asleep.take()
		p.wake(l)
		if l.Isolated && l.isEmpty() {
			p.receivers.endIsolation(l)
		}
	}
	return time.Time{}, false
}

// enter marks a lane as changed by the entry being made.
func (p *Planner) enter(l *lane) { p.drafted.add(l) }

// endDraft clears the drafts, because the loads now contain the entry's changes.
func (p *Planner) endDraft() {
	p.spaces.forgetBegun()
	p.drafted.drain(func(l *lane) {
		l.draft = draft{}
		if l.parts != nil {
			l.parts.endDraft()
		}
	})
}
