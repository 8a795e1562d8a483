package store

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/fsm/task"
)

// Lane is the line of tasks before one receiver. A due task is in exactly one of its two lists. A lane is open as long
// as it has a task. It is valid until the end of the entry that leaves it empty.
type Lane struct {
	task.Lane
	number  uint32 // the lane's number in lanes
	queue   *queue // the lane counts as one of its uses
	ready   list
	firing  list
	touched bool // the lane is in lanes.touched

	overdue   int64 // due time of its first ready task; valid while the lane is in its queue's heap
	waitingAt int   // position in that heap, from 1 on; 0: the lane has no ready task
}

// Rule returns the rule of the lane's queue. It is never nil, and the caller must not change it.
func (l *Lane) Rule() *fsmpb.QueueRule { return l.queue.rule }

// Pulled reports whether the lane's tasks wait for consumers. Otherwise they are pushed to a target.
func (l *Lane) Pulled() bool { return l.Destination == "" && !l.queue.rule.Pushed }

// Ready returns the number of tasks that wait for a grant.
func (l *Lane) Ready() int { return l.ready.len }

// Firing returns the number of tasks that have a grant.
func (l *Lane) Firing() int { return l.firing.len }

func (l *Lane) load() task.LaneLoad {
	return task.LaneLoad{Lane: l.Lane, Ready: l.ready.len, Firing: l.firing.len, Pulled: l.Pulled()}
}

// lanes holds the lanes that have a task. Number 0 means no lane.
type lanes struct {
	numbered[task.Lane, Lane]
	touched []*Lane // lanes whose lists this entry has changed; some may be empty by now
}

func newLanes() lanes { return lanes{numbered: newNumbered[task.Lane, Lane](nil)} }

// touch notes that the entry has changed a lane.
func (ls *lanes) touch(l *Lane) {
	if !l.touched {
		l.touched = true
		ls.touched = append(ls.touched, l)
	}
}

// Lane returns an open lane, or nil if no open lane has this name.
func (s *Store) Lane(name task.Lane) *Lane { return s.lanes.find(name) }

// FirstReady returns the task that has waited longest in a lane. The lane must have a ready task.
func (s *Store) FirstReady(l *Lane) Task { return Task{s, l.ready.head} }

// OpenLane returns the lane that delivers the task, and opens it if need be.
func (e Edit) OpenLane() *Lane { return e.s.openLane(e.record()) }

func (s *Store) openLane(r *record) *Lane {
	c := readCold(s.blobs.Get(r.cold))
	q := s.queues.at(c.queue)
	name := task.Lane{Namespace: q.namespace, Queue: q.name, Destination: s.destinationOf(&c, s.extraOf(&c))}
	if l := s.lanes.find(name); l != nil {
		return l
	}
	s.queues.acquire(q.queueKey)
	l := &Lane{Lane: name, queue: q}
	l.number = s.lanes.add(name, l)
	return l
}

// Wait puts the task at the end of a lane's ready list.
func (e Edit) Wait(l *Lane) {
	e.write().lane = l.number
	l.ready.pushBack(e.s.links(), e.h, int64(e.s.Number))
	e.s.lanes.touch(l)
}

// WaitFirst moves a firing task to the front of its lane's ready list.
func (e Edit) WaitFirst() {
	l := e.Lane()
	l.firing.remove(e.s.links(), e.h)
	l.ready.pushFront(e.s.links(), e.h, int64(e.s.Number))
	e.s.lanes.touch(l)
}

// Fire puts the task, which is in no list, into a lane's firing list.
func (e Edit) Fire(l *Lane) {
	e.write().lane = l.number
	e.s.lanes.touch(l)
	l.firing.pushBack(e.s.links(), e.h, int64(e.s.Number))
}

// LeaveList takes the task out of its lane's list or out of the tombstones.
func (e Edit) LeaveList() {
	s, r := e.s, e.record()
	if r.progress == 0 {
		return
	}
	p := s.progress.Read(r.progress)
	switch {
	case p.lane != 0:
		l := s.lanes.at(p.lane)
		if r.is(fsmpb.State_STATE_READY) {
			l.ready.remove(s.links(), e.h)
		} else {
			l.firing.remove(s.links(), e.h)
		}
		s.progress.Write(r.progress).lane = 0
		s.lanes.touch(l)
	case p.size != 0:
		s.tombstones.remove(s.links(), e.h)
		s.tombstoneBytes -= int64(p.size)
		s.progress.Write(r.progress).size = 0
	}
}

// SettleLanes ends an entry. It closes the lanes that the entry left empty, because there may have been as many lanes
// as receivers. It returns the loads of the lanes that the entry has changed if full is set.
func (s *Store) SettleLanes(full bool) []task.LaneLoad {
	var loads []task.LaneLoad
	for i, l := range s.lanes.touched {
		s.lanes.touched[i] = nil
		l.touched = false
		if full {
			loads = append(loads, l.load())
		}
		l.queue.waiting.place(l, s.links())
		if l.ready.len+l.firing.len == 0 {
			s.lanes.remove(l.Lane)
			s.queues.release(l.queue)
		}
	}
	s.lanes.touched = s.lanes.touched[:0]
	return loads
}

// Loads returns the load of every open lane, in no particular order.
func (s *Store) Loads() []task.LaneLoad {
	loads := make([]task.LaneLoad, 0, len(s.lanes.numbers))
	for _, l := range s.lanes.values {
		if l != nil {
			loads = append(loads, l.load())
		}
	}
	return loads
}

// PushedGrants returns the tasks with a running attempt that no consumer has, in the order in which the attempts
// began.
func (s *Store) PushedGrants() []Task { return slices.DeleteFunc(s.Firing(), Task.Leased) }

// Firing returns the tasks with a running attempt, in the order in which the attempts began. The order of the lanes
// themselves differs between replicas.
func (s *Store) Firing() []Task {
	var firing []Task
	for _, l := range s.lanes.values {
		if l == nil {
			continue
		}
		for h := l.firing.head; h != 0; h = s.links().read(h).next {
			firing = append(firing, Task{s, h})
		}
	}
	slices.SortFunc(firing, func(a, b Task) int { return cmp.Compare(a.read().order, b.read().order) })
	return firing
}

// list is a doubly linked list of tasks, linked through their progress records, in ascending order.
type list struct {
	head, tail handle // of tasks
	len        int
}

// listLinks gives access to the links of a task.
type listLinks struct {
	tasks    *slab.Pages[record]
	progress *slab.Pages[progress]
}

func (s listLinks) read(h handle) *progress  { return s.progress.Read(s.tasks.Read(h).progress) }
func (s listLinks) write(h handle) *progress { return s.progress.Write(s.tasks.Read(h).progress) }

func (l *list) pushBack(s listLinks, h handle, order int64) {
	p := s.write(h)
	p.order, p.prev, p.next = order, l.tail, 0
	if l.tail == 0 {
		l.head = h
	} else {
		s.write(l.tail).next = h
	}
	l.tail = h
	l.len++
}

// pushFront puts a task that was given back before all others of the list.
func (l *list) pushFront(s listLinks, h handle, order int64) {
	p := s.write(h)
	if l.head != 0 {
		order = s.read(l.head).order - 1
		s.write(l.head).prev = h
	} else {
		l.tail = h
	}
	p.order, p.prev, p.next = order, 0, l.head
	l.head = h
	l.len++
}

func (l *list) remove(s listLinks, h handle) {
	p := s.write(h)
	if p.prev == 0 {
		l.head = p.next
	} else {
		s.write(p.prev).next = p.next
	}
	if p.next == 0 {
		l.tail = p.prev
	} else {
		s.write(p.next).prev = p.prev
	}
	p.prev, p.next, p.order = 0, 0, 0
	l.len--
}
