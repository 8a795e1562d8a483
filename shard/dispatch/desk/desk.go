package desk

import (
	"container/list"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Terms are the terms of a lease. A demand takes tasks of its own terms alone.
type Terms struct {
	Lease  time.Duration
	Holder uint32 // the run of the node that the task goes to; see task.LeaseRequest
}

// Arrivals is a node's answer to a shard's leader that asks which leases came to it.
type Arrivals struct {
	Holder uint32   // the node's run
	Fences []uint64 // of those that came to it; it does not take the others any more
}

// Wish is the open part of one demand.
type Wish struct {
	Tag uint64 // of the demand; never 0, and not used again at a desk
	Max int
	Terms
}

// Consumer takes a demand's tasks. Its methods are called one after the other, with the desk locked: they
// must neither block nor call the desk or the demand.
type Consumer interface {
	// Take gets tasks that are leased and due, in the order of their instants.
	Take(task.Leased)
	// Nothing says that nothing was there for the demand when it asked so, by this number, and that all that came before
	// has been taken.
	Nothing(look uint64)
	// End says that nothing more comes. It is not called after Demand.Withdraw.
	End(error)
}

// Config is what a desk needs of its leadership. The functions must not block, nor call the desk.
type Config struct {
	// Changed is told that the demand of a lane has appeared, grown or gone, once until Wishes is called for the lane.
	Changed func(task.Lane)
	// Look is told that a demand of the lane asks whether a task is there for it. Its receiver calls Nothing for the
	// lane once all tasks that were due then have been found due, and all that wait and may be granted have been
	// granted.
	Look func(task.Lane)
	// Task returns the task of a grant. It returns nil if the task is no longer to be handed over: the grant has then
	// been dealt with. Task is called without the desk's lock.
	Task func(task.Grant) *fsmpb.Task
	// Release gives back grants that no demand takes, and returns the grants that it could not give back because the
	// leadership is over. It is called without the desk's lock.
	Release func([]task.Grant) []task.Grant
	// Keep returns how long a task that is leased and due may wait for a demand before it is given back. A return and a
	// new grant take two entries.
	Keep func() time.Duration
}

// Desk holds the demands of one leadership. Its methods are safe for concurrent use, but Start must not be called by
// two at once, and Wishes and Granted only by the maker of entries, one entry at a time.
type Desk struct {
	cfg Config

	mu      sync.Mutex
	lines   map[task.Lane]*line // those with a demand
	demands map[uint64]*Demand  // by tag; also those withdrawn that may yet get a grant
	named   []*Demand           // that the entry being made may name
	lastTag uint64
	shelf   shelf
	closed  error // why, once it is
}

// line is the demands of one lane, those first that were served longest ago.
type line struct {
	lane      task.Lane
	demands   list.List // of *Demand
	ready     int       // tasks that wait in the lane, as of the last entry that said so
	announced bool      // Changed was called, and Wishes not since
}

// NewDesk returns an open one.
func NewDesk(cfg Config) *Desk {
	k := &Desk{cfg: cfg, lines: make(map[task.Lane]*line), demands: make(map[uint64]*Demand)}
	k.shelf = shelf{
		desk: k, life: cfg.Keep, now: time.Now, later: func(d time.Duration, f func()) { time.AfterFunc(d, f) },
	}
	return k
}

// Open begins a demand for up to total tasks of a lane. The error is the one that the desk was closed with.
func (k *Desk) Open(lane task.Lane, terms Terms, total uint64, c Consumer) (*Demand, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed != nil {
		return nil, k.closed
	}
	l := k.lines[lane]
	if l == nil {
		l = &line{lane: lane}
		k.lines[lane] = l
	}
	k.lastTag++
	d := &Demand{desk: k, line: l, tag: k.lastTag, terms: terms, total: total, consumer: c}
	d.place = l.demands.PushBack(d)
	k.demands[d.tag] = d
	k.shelf.offer(d)
	k.announce(l)
	return d, nil
}

// announce has the planner look at a lane.
func (k *Desk) announce(l *line) {
	if !l.announced {
		l.announced = true
		k.cfg.Changed(l.lane)
	}
}

// Wishes returns what the demands of a lane ask for, in the order in which they are to be served. The entry that is
// being made may name any of them. Until Granted, tasks may come for each, also if it is withdrawn meanwhile.
func (k *Desk) Wishes(lane task.Lane) []Wish {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[lane]
	if l == nil {
		return nil
	}
	l.announced = false
	var wishes []Wish
	for e := l.demands.Front(); e != nil; e = e.Next() {
		d := e.Value.(*Demand)
		room := d.room()
		if room == 0 {
			continue
		}
		wishes = append(wishes, Wish{Tag: d.tag, Max: room, Terms: d.terms})
		if !d.named {
			d.named = true
			k.named = append(k.named, d)
		}
	}
	return wishes
}

// Asked reports whether a consumer waits for tasks of a lane.
func (k *Desk) Asked(lane task.Lane) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[lane]
	if l != nil {
		l.announced = false
	}
	return l != nil
}

// isAsked reports whether a demand of the lane has room for a task, by any terms.
func (k *Desk) isAsked(lane task.Lane) bool {
	l := k.lines[lane]
	if l == nil {
		return false
	}
	for e := l.demands.Front(); e != nil; e = e.Next() {
		if e.Value.(*Demand).room() > 0 {
			return true
		}
	}
	return false
}

// Granted ends the making of an entry, also of one that did not commit: these are the grants that it made for demands,
// in order. Each is followed by Start or GivenBack, unless the leadership ends before.
func (k *Desk) Granted(grants []task.Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range grants {
		d := k.demands[g.Tag]
		if d == nil {
			continue
		}
		d.granted++
		d.coming++
		if d.place != nil {
			d.line.demands.MoveToBack(d.place)
		}
	}
	for _, d := range k.named {
		d.named = false
		d.forgetIfDone()
	}
	clear(k.named)
	k.named = k.named[:0]
}

// Ready notes how many tasks wait in a lane. Its consumers hear of it with their next tasks.
func (k *Desk) Ready(lane task.Lane, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[lane]; l != nil {
		l.ready = n
	}
}

// GivenBack says that grants are not started after all: their tasks go back to their lane.
func (k *Desk) GivenBack(grants []task.Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range grants {
		k.missed(g)
	}
}

func (k *Desk) missed(g task.Grant) {
	if d := k.demands[g.Tag]; d != nil {
		d.miss()
	}
}

// Start hands over granted tasks whose instants have come. Those without a taker lie on the shelf for a moment.
func (k *Desk) Start(grants []task.Grant) {
	tasks := make([]*fsmpb.Task, len(grants))
	for i, g := range grants {
		tasks[i] = k.cfg.Task(g)
	}
	k.release(k.hand(grants, tasks))
}

// hand returns the grants without a taker.
func (k *Desk) hand(grants []task.Grant, tasks []*fsmpb.Task) (back []task.Grant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var served []*Demand
	for i, g := range grants {
		if tasks[i] == nil {
			k.missed(g)
			continue
		}
		d, terms := k.taker(g)
		if d == nil {
			if k.isAsked(g.Lane) || !k.shelf.put(g, tasks[i], terms) {
				back = append(back, g)
			}
			continue
		}
		if len(d.parcel) == 0 {
			served = append(served, d)
		}
		d.put(tasks[i])
	}
	for _, d := range served {
		d.deliver()
		d.lookAgain()
	}
	return back
}

// Nothing answers the demands of a lane that have asked whether anything is there, but for those to which something is
// on its way: they are told when it has come.
func (k *Desk) Nothing(lane task.Lane) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[lane]
	if l == nil {
		return
	}
	for e := l.demands.Front(); e != nil; e = e.Next() {
		if d := e.Value.(*Demand); d.look > d.looked && d.coming == 0 {
			d.looked = d.look
			d.consumer.Nothing(d.look)
		}
	}
}

// taker returns the demand that gets a grant's task, nil if there is none, and the grant's terms, zero if they are not
// known. It is the demand that the grant was made for, or another one of the same terms if that one has gone, was
// lowered or has too much under way.
func (k *Desk) taker(g task.Grant) (_ *Demand, _ Terms) {
	d := k.demands[g.Tag]
	if d == nil {
		return nil, Terms{}
	}
	if d.place != nil && d.granted-uint64(d.coming) < d.total && d.sentBytes < maxSentBytes {
		d.coming--
		return d, d.terms
	}
	d.miss()
	l := k.lines[d.line.lane] // perhaps another one than when the demand stood in it
	if l == nil {
		return nil, d.terms
	}
	for e := l.demands.Front(); e != nil; e = e.Next() {
		if other := e.Value.(*Demand); other.terms == d.terms && other.room() > 0 {
			other.granted++
			l.demands.MoveToBack(e)
			return other, d.terms
		}
	}
	return nil, d.terms
}

// release gives back grants without a taker.
func (k *Desk) release(grants []task.Grant) {
	if len(grants) > 0 {
		k.Unload(k.cfg.Release(grants))
	}
}

// Unload hands over grants that cannot be given back here because the leadership is over. Each goes to the first demand
// of its lane and node, asked for or not: that consumer can give it back to the next leader. Without such a demand, the
// next leader finds out by itself.
func (k *Desk) Unload(grants []task.Grant) {
	for _, g := range grants {
		if task := k.cfg.Task(g); task != nil {
			k.unload(g, task)
		}
	}
}

func (k *Desk) unload(g task.Grant, task *fsmpb.Task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, d := k.lines[g.Lane], k.demands[g.Tag]
	if l != nil && d != nil {
		l.unload(task, d.terms.Holder)
	}
}

// unload makes the first in line of a node take a task.
func (l *line) unload(task *fsmpb.Task, holder uint32) {
	for e := l.demands.Front(); e != nil; e = e.Next() {
		if d := e.Value.(*Demand); d.terms.Holder == holder {
			d.granted++
			d.put(task)
			d.deliver()
			return
		}
	}
}

// Close ends all demands with the error, which later ones get, too. Tasks on the shelf go to the first demand of their
// lane and node. Grants not started by then run out with their leases.
func (k *Desk) Close(reason error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed != nil {
		return
	}
	k.closed = reason
	k.shelf.empty()
	for _, d := range k.demands {
		if d.place != nil {
			d.place = nil
			d.consumer.End(reason)
		}
	}
	clear(k.demands)
	clear(k.lines)
	k.named = nil
}

// Waiting is how many demands there are.
func (k *Desk) Waiting() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, l := range k.lines {
		n += l.demands.Len()
	}
	return n
}
