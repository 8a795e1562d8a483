package shard

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
	"github.com/belfryhq/belfry/shard/dispatch/lend"
	"github.com/belfryhq/belfry/shard/dispatch/throttle"
)

// maxIdleLanes is how many lanes without a task are remembered for what is known of their receivers.
const maxIdleLanes = 1024

// lane is what a leadership knows of one receiver's line. The zeros of a load mean that no task is due there.
type lane struct {
	task.LaneLoad // after the last applied entry
	queue         *laneQueue
	throttle      throttle.Throttle // of a pushed lane

	marked   bool          // in book.marked
	dozing   bool          // in book.dozing
	outside  bool          // in book.outside
	idle     *list.Element // in book.idle; nil: a task is due, or a consumer waits
	special  int           // place in book.special; -1: none
	consumed int           // place in book.consumed; -1: none

	// Of a limited queue: what it could begin now, as queue.want counts it, and whether it stands in queue.line.
	wish   int
	inLine bool

	// What the entry being put together does to it; zero between entries.
	inEntry bool
	freed   int         // attempts that end
	granted int         // attempts that may begin
	demands []desk.Wish // what its consumers still ask for
	asked   bool        // demands is set
}

// isPulledByPolicy tells whether consumers will get the lane's tasks. Of a lane with tasks the machine says so.
func (l *lane) isPulledByPolicy() bool {
	return l.Lane.Destination == "" && l.queue.policy.GetTarget() == nil
}

// isStranded tells whether it is pushed to a target of the queue's that is gone. The shard's rules will say so in a
// moment: then it is pulled.
func (l *lane) isStranded() bool { return !l.Pulled && l.isPulledByPolicy() }

func (l *lane) isEmpty() bool { return l.Ready == 0 && l.Firing == 0 }

// pushed is how many attempts are under way, not counting consumers'.
func (l *lane) pushed() int {
	if l.Pulled {
		return 0
	}
	return l.Firing
}

// inFlight is how many attempts are under way once the entry being put together has been applied.
func (l *lane) inFlight() int { return max(l.Firing-l.freed, 0) + l.granted }

// book is what a leadership knows of its lanes: what waits and what is under way as of the last entry, what their
// receivers can take, and which of them are worth a look. Its cost is that of what changes: a lane that cannot begin
// anything is looked at again when something that may let it has happened, and not before. The proposer's goroutine
// owns it.
type book struct {
	lead  *leadership
	shard *Shard
	cfg   throttle.Config

	lanes     map[task.Lane]*lane
	queues    map[queueName]*laneQueue
	borrowers map[queueName]*lend.Borrower
	held      map[queueName]bool // queues whose policy is not known, and which the shard's rules hold

	marked   []*lane      // to be looked at, in order
	servable []*laneQueue // limited queues with a line and, as it seems, permits
	entry    []*lane      // that the entry being put together changes
	touched  []*laneQueue // limited queues whose borrower must hear of the last entry
	dozing   dozers       // lanes that wait for an instant
	pushed   int          // attempts under way: the sum over pushed lanes
	outside  []*lane      // lanes that wait until fewer are
	idle     *list.List   // lanes without a task, the longest idle first
	special  ring         // pushed lanes that an Advance must be told of
	consumed ring         // pulled lanes with a demand
	broken   int          // lanes whose breaker is open
	pacing   pacing
	looks    looks
}

func newBook(l *leadership) *book {
	b := &book{
		lead: l, shard: l.shard, cfg: l.shard.cfg.Policy.throttle(),
		lanes: map[task.Lane]*lane{}, queues: map[queueName]*laneQueue{}, borrowers: map[queueName]*lend.Borrower{},
		idle: list.New(),
	}
	b.special.place = func(l *lane) *int { return &l.special }
	b.consumed.place = func(l *lane) *int { return &l.consumed }
	return b
}

// begin takes the loads at the beginning of a leadership.
func (b *book) begin(loads []task.LaneLoad) {
	b.policiesChanged(b.shard.heldUnknown())
	for _, load := range loads {
		b.update(load)
	}
}

// open returns the record of a lane, a new one if there is none.
func (b *book) open(key task.Lane) *lane {
	if l, ok := b.lanes[key]; ok {
		return l
	}
	l := &lane{
		LaneLoad: task.LaneLoad{Lane: key}, queue: b.queueOf(key), throttle: throttle.New(b.cfg), special: -1, consumed: -1,
	}
	l.Pulled = l.isPulledByPolicy()
	l.queue.lanes++
	b.lanes[key] = l
	return l
}

// update takes a lane's load after an entry.
func (b *book) update(load task.LaneLoad) {
	if _, ok := b.lanes[load.Lane]; !ok && load.Ready == 0 && load.Firing == 0 {
		return
	}
	l := b.open(load.Lane)
	l.queue.firing += load.Firing - l.Firing
	b.pushed -= l.pushed()
	l.LaneLoad = load
	b.pushed += l.pushed()
	b.touch(l.queue)
	b.mark(l)
	b.review(l)
}

// review puts a lane where its load belongs, and forgets it if it is neither busy nor worth remembering.
func (b *book) review(l *lane) {
	b.special.set(l, b.isSpecial(l))
	switch {
	case !l.isEmpty() || l.consumed >= 0:
		b.rouse(l)
	case l.throttle.Fresh(b.cfg, time.Now()):
		b.close(l)
	case l.idle == nil:
		l.idle = b.idle.PushBack(l)
		if b.idle.Len() > maxIdleLanes {
			b.close(b.idle.Front().Value.(*lane))
		}
	}
}

// isSpecial tells whether an Advance would give a lane less, or more, than its receiver takes.
func (b *book) isSpecial(l *lane) bool {
	window := l.throttle.Window()
	switch {
	case l.Pulled || l.throttle.Open():
		return false
	case window < b.cfg.Start:
		return l.Firing >= window
	}
	return window > b.cfg.Start && l.Firing >= b.cfg.Start/2
}

// rouse takes a lane off the idle ones.
func (b *book) rouse(l *lane) {
	if l.idle != nil {
		b.idle.Remove(l.idle)
		l.idle = nil
	}
}

// close forgets an empty lane.
func (b *book) close(l *lane) {
	b.rouse(l)
	b.leaveLine(l)
	if l.throttle.Open() {
		b.broken--
	}
	delete(b.lanes, l.Lane)
	b.leaveQueue(l)
}

// mark has a lane looked at when the next entry is put together.
func (b *book) mark(l *lane) {
	if !l.marked && (l.Ready > 0 || l.inLine) {
		l.marked = true
		b.marked = append(b.marked, l)
	}
}

// enter notes that the entry being put together changes a lane.
func (b *book) enter(l *lane) {
	if !l.inEntry {
		l.inEntry = true
		b.entry = append(b.entry, l)
	}
}

// leaveEntry forgets what the entry did to its lanes: their loads say it now.
func (b *book) leaveEntry() {
	for _, l := range b.entry {
		l.inEntry, l.freed, l.granted, l.demands, l.asked = false, 0, 0, nil, false
	}
	b.entry = b.entry[:0]
}

// ended takes how an attempt came out whose settle is in the entry being put together.
func (b *book) ended(key task.Lane, how *throttle.Ending) {
	l, ok := b.lanes[key]
	if !ok {
		return
	}
	b.enter(l)
	if how != nil {
		wasOpen := l.throttle.Open()
		e := *how
		e.Full = l.Ready > 0 || l.Firing >= l.throttle.Window()
		l.throttle.End(b.cfg, time.Now(), e)
		b.countBroken(wasOpen, l.throttle.Open())
	}
	l.freed++
	b.mark(l)
}

func (b *book) countBroken(before, after bool) {
	switch {
	case after && !before:
		b.broken++
	case before && !after:
		b.broken--
	}
}

// strangers is how many more attempts may begin at receivers that are not known to be well. A hundred thousand of them
// that never answer would else have as many connections open at the same time.
func (b *book) strangers() int { return max(int(b.shard.cfg.Policy.Strangers)-b.pushed, 0) }

// letIn has as many of the lanes outside looked at as may begin something.
func (b *book) letIn() {
	n := min(len(b.outside), b.strangers())
	for _, l := range b.outside[:n] {
		l.outside = false
		b.mark(l)
	}
	b.outside = b.outside[n:]
}

// demandChanged is told that a consumer asks for tasks of a lane, or that none does any more.
func (b *book) demandChanged(key task.Lane) {
	l := b.open(key)
	l.asked, l.demands = false, nil
	b.consumed.set(l, b.lead.desk.Asked(key))
	b.mark(l)
	b.review(l)
}

// doze lets a lane be looked at again at an instant.
func (b *book) doze(l *lane, until time.Time) {
	if !l.dozing {
		l.dozing = true
		heap.Push(&b.dozing, dozer{until, l})
	}
}

// wake marks the lanes whose instant has come. It returns when the next one's does; ok is false if there is none.
func (b *book) wake(now time.Time) (next time.Time, ok bool) {
	for len(b.dozing) > 0 {
		if d := b.dozing[0]; d.until.After(now) {
			return d.until, true
		}
		l := heap.Pop(&b.dozing).(dozer).lane
		l.dozing = false
		b.mark(l)
	}
	return time.Time{}, false
}

// dozer is a lane that waits for an instant.
type dozer struct {
	until time.Time
	lane  *lane
}

// dozers is a heap of them, the earliest first.
type dozers []dozer

func (d dozers) Len() int           { return len(d) }
func (d dozers) Less(i, j int) bool { return d[i].until.Before(d[j].until) }
func (d dozers) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dozers) Push(x any)        { *d = append(*d, x.(dozer)) }
func (d *dozers) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}

// ring is a set of lanes that can be walked a few at a time, so that each has its turn.
type ring struct {
	place func(*lane) *int
	lanes []*lane
	next  int
}

// set puts a lane in or takes it out.
func (r *ring) set(l *lane, in bool) {
	at := r.place(l)
	switch {
	case in && *at < 0:
		*at = len(r.lanes)
		r.lanes = append(r.lanes, l)
	case !in && *at >= 0:
		last := r.lanes[len(r.lanes)-1]
		r.lanes[*at] = last
		*r.place(last) = *at
		r.lanes = r.lanes[:len(r.lanes)-1]
		*at = -1
	}
}

// walk visits at most n lanes, from where the last walk ended, until visit returns false.
func (r *ring) walk(n int, visit func(*lane) bool) {
	for range min(n, len(r.lanes)) {
		if r.next >= len(r.lanes) {
			r.next = 0
		}
		l := r.lanes[r.next]
		r.next++
		if !visit(l) {
			return
		}
	}
}
