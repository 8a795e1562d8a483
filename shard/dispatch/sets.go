package dispatch

import (
	"container/heap"
	"time"
)

// membership is the bit set of the planner's sets that a lane or a queue is in. Each bit stands for one kind of set.
type membership uint32

const (
	woken       membership = 1 << iota // lanes that the next plan looks at
	asleep                             // lanes that an instant wakes
	heldBack                           // lanes that fewer attempts under way wake
	inFirstLine                        // lanes with a wish, in the line of their limited queue: one bit for each priority
	_
	_
	_
	inLastLine
	inDraft   // lanes that the entry being made changes
	serving   // limited queues whose lines the next plan serves
	reporting // limited queues whose owners need a report of the last entry
	holding   // queues with held-back lanes
	beginning // namespaces whose attempts the entry being made begins
	wanting   // groups that the next ask is for
	refused   // groups that the owner refused at the last ask
	inquiring // queues whose groups may need an ask
)

const inLine = inFirstLine | inFirstLine<<1 | inFirstLine<<2 | inFirstLine<<3 | inLastLine

func (m *membership) sets() *membership { return m }

func (m *membership) isIn(set membership) bool { return *m&set != 0 }

// fifo is a set whose members leave in the order in which they came.
type fifo[T interface{ sets() *membership }] struct {
	set     membership // the set's bit in its members
	members []T
}

// add appends a member. A present member keeps its place.
func (f *fifo[T]) add(member T) {
	if in := member.sets(); !in.isIn(f.set) {
		*in |= f.set
		f.members = append(f.members, member)
	}
}

// take removes and returns the first member. It panics on an empty set.
func (f *fifo[T]) take() T {
	var none T
	member := f.members[0]
	f.members[0] = none
	f.members = f.members[1:]
	*member.sets() &^= f.set
	return member
}

// drain removes all members and visits them in order. The set keeps its memory.
func (f *fifo[T]) drain(visit func(T)) {
	for _, member := range f.members {
		*member.sets() &^= f.set
		visit(member)
	}
	clear(f.members)
	f.members = f.members[:0]
}

func (f *fifo[T]) len() int { return len(f.members) }

// The rings that a lane may be in.
const (
	ringAsked   = iota // pulled lanes with a demand
	ringUnusual        // pushed lanes that need a credit in an Advance
	ringBroken         // lanes whose breaker is open
	ringQueue          // all lanes of a queue
	rings
)

// ring is a set of lanes that is walked a few at a time, so that each lane has its turn.
type ring struct {
	id    int // ringAsked and so on
	lanes []*lane
	next  int // index of the next lane to visit
}

// set adds or removes a lane.
func (r *ring) set(l *lane, in bool) {
	place := &l.places[r.id]
	switch {
	case in && *place == 0:
		r.lanes = append(r.lanes, l)
		*place = int32(len(r.lanes))
	case !in && *place > 0:
		last := len(r.lanes) - 1
		moved := r.lanes[last]
		r.lanes[*place-1], moved.places[r.id] = moved, *place
		r.lanes[last] = nil
		r.lanes = r.lanes[:last]
		*place = 0
	}
}

func (r *ring) has(l *lane) bool { return l.places[r.id] > 0 }

// walk visits at most n lanes, from the end of the last walk on, until visit returns false.
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

// sleeper is a lane with the instant that wakes it.
type sleeper struct {
	until time.Time
	lane  *lane
}

// sleepers is a heap of lanes, the earliest instant first.
type sleepers []sleeper

// add puts a lane to sleep. A sleeping lane keeps its instant.
func (s *sleepers) add(l *lane, until time.Time) {
	if !l.isIn(asleep) {
		l.membership |= asleep
		heap.Push(s, sleeper{until, l})
	}
}

// take removes and returns the lane with the earliest instant.
func (s *sleepers) take() *lane {
	l := heap.Pop(s).(sleeper).lane
	l.membership &^= asleep
	return l
}

func (s sleepers) Len() int           { return len(s) }
func (s sleepers) Less(i, j int) bool { return s[i].until.Before(s[j].until) }
func (s sleepers) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sleepers) Push(x any)        { *s = append(*s, x.(sleeper)) }
func (s *sleepers) Pop() any {
	old := *s
	last := old[len(old)-1]
	old[len(old)-1] = sleeper{}
	*s = old[:len(old)-1]
	return last
}
