package desk

import (
	"container/list"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Terms are the terms of a lease. A demand takes only tasks of equal terms.
type Terms struct {
	Lease  time.Duration
	Holder uint32 // boot number of the node that gets the task; see task.LeaseRequest
}

// Arrivals is a node's answer to a leader that asks for the leases that reached the node.
type Arrivals struct {
	Holder uint32   // the node's boot number
	Fences []uint64 // leases that reached the node; it refuses the other leases from now on
}

// Wish is the number of tasks that one demand still asks for.
type Wish struct {
	Tag uint64 // of the demand; never 0, and unique at a desk
	Max int
	Terms
}

// Consumer receives a demand's tasks. The desk calls its methods one after the other and holds its lock: they must
// neither block nor call the desk or the demand.
type Consumer interface {
	// Take receives tasks that are leased and due, in the order of their instants.
	Take(task.Leased)
	// Nothing answers the look of that number: no task was there for the demand, and the consumer has taken all earlier
	// ones.
	Nothing(look uint64)
	// End reports that no more tasks come. The desk does not call it after Demand.Withdraw.
	End(error)
}

// Leadership is the leadership of a desk, as the desk sees it. Its methods must not block, nor call the desk.
type Leadership interface {
	// Changed receives a lane whose demand has appeared, grown or gone, once until Wishes or Asked is called for the
	// lane.
	Changed(task.Lane)
	// Look receives a lane where a demand asks whether a task is there for it. The leadership calls Nothing for the
	// lane once the wheel has popped all tasks that were due then, and the waiting tasks that may be granted have been
	// granted.
	Look(task.Lane)
	// Task returns the task of a grant. It returns nil if the task must not be handed over any more, and has then dealt
	// with the grant. The desk calls it without its lock.
	Task(task.Grant) *fsmpb.Task
	// Release gives back grants that no demand takes. It returns the grants that it could not give back because the
	// leadership is over. The desk calls it without its lock.
	Release([]task.Grant) []task.Grant
	// Keep returns how long a leased and due task may wait for a demand before it is given back. Giving a task back and
	// granting it anew takes two entries.
	Keep() time.Duration
}

// Desk holds the demands of one leadership. Its methods are safe for concurrent use, with two exceptions: no two
// goroutines may call Start at once, and only the maker of entries may call Wishes and Granted, for one entry at a
// time.
type Desk struct {
	leadership Leadership

	mu      sync.Mutex
	lines   map[task.Lane]*line // the lanes with a demand, by receiver: consumers take tasks of all groups
	demands map[uint64]*Demand  // by tag, with the withdrawn ones that may yet get a grant
	named   []*Demand           // demands that the entry being made may name
	lastTag uint64
	shelf   shelf
	closed  error // the error of Close; nil: open
}

// line holds the demands of one lane, the one served longest ago first.
type line struct {
	lane      task.Lane
	demands   list.List // of *Demand
	ready     int       // waiting tasks in the lane, as the last entry that changed the lane reports
	nextMs    int64     // due time of the first of them; 0: not known
	announced bool      // Changed was called, and neither Wishes nor Asked since
}

// NewDesk returns the open desk of a leadership.
func NewDesk(l Leadership) *Desk {
	k := &Desk{leadership: l, lines: make(map[task.Lane]*line), demands: make(map[uint64]*Demand)}
	later := func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	k.shelf = shelf{desk: k, now: time.Now, later: later}
	return k
}

// Open adds a demand for up to total tasks of a lane. On a closed desk it returns the error of Close.
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

// announce reports a changed demand of a lane to the planner.
func (k *Desk) announce(l *line) {
	if !l.announced {
		l.announced = true
		k.leadership.Changed(l.lane)
	}
}

// Wishes returns the demands' open parts in a lane, in the order in which they are to be served. The entry being made
// may name any of them. Until Granted, each may get tasks, even if it is withdrawn meanwhile.
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

// Asked reports whether a lane has a demand.
func (k *Desk) Asked(lane task.Lane) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[lane]
	if l != nil {
		l.announced = false
	}
	return l != nil
}

// isAsked reports whether a demand of the lane, of any terms, has room for a task.
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

// Granted ends the making of an entry, committed or not. grants are the entry's grants for demands, in order. Start or
// GivenBack follows for each grant unless the leadership ends before.
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

// Ready sets the number of waiting tasks in a lane, and the due time of the first, 0 if it is not known. The lane's
// consumers learn both with their next tasks.
func (k *Desk) Ready(lane task.Lane, n int, nextMs int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[lane]; l != nil {
		l.ready, l.nextMs = n, nextMs
	}
}

// GivenBack reports grants that are not started: their tasks go back to their lanes.
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

// Start hands over granted tasks whose instants have come. A task without a taker lies on the shelf for a moment.
func (k *Desk) Start(grants []task.Grant) {
	tasks := make([]*fsmpb.Task, len(grants))
	for i, g := range grants {
		tasks[i] = k.leadership.Task(g)
	}
	k.release(k.hand(grants, tasks))
}

// hand gives each task to its taker and returns the grants to give back: those without a taker that the shelf does not
// keep.
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
			if k.isAsked(g.Lane.Receiver()) || !k.shelf.put(g, tasks[i], terms) {
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

// Nothing answers the open looks of a lane's demands. It skips a demand to which a grant is on its way: that demand
// gets its answer after the grant.
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

// taker returns the demand that gets a grant's task, or nil, and the grant's terms, zero if unknown. It prefers the
// demand that the grant was made for. It takes another demand of the same terms if the first one has gone, was lowered
// or has too much under way.
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
	l := k.lines[d.line.lane] // perhaps another line than the one that the demand stood in
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
		k.Unload(k.leadership.Release(grants))
	}
}

// Unload hands over grants that cannot be given back because the leadership is over. Each goes to the first demand of
// its lane and node, even one without room: its consumer can give the task back to the next leader. Without such a
// demand, the next leader reclaims the lease by itself.
func (k *Desk) Unload(grants []task.Grant) {
	for _, g := range grants {
		if task := k.leadership.Task(g); task != nil {
			k.unload(g, task)
		}
	}
}

func (k *Desk) unload(g task.Grant, task *fsmpb.Task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, d := k.lines[g.Lane.Receiver()], k.demands[g.Tag]
	if l != nil && d != nil {
		l.unload(task, d.terms.Holder)
	}
}

// unload gives a task to the line's first demand of a node.
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

// Close ends all demands with the error, and later calls of Open get it too. Tasks on the shelf go to the first demand
// of their lane and node. Leases not handed over by then run out.
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

// Waiting returns the number of demands.
func (k *Desk) Waiting() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, l := range k.lines {
		n += l.demands.Len()
	}
	return n
}
