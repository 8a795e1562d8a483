package store

import (
	"cmp"
	"iter"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Lane is the line of tasks before one receiver, or the tasks of one group in that line. A due task is in exactly one
// of its parts. A lane is open as long as it has a task. It is valid until the end of the entry that leaves it empty.
type Lane struct {
	task.Lane
	number   uint32 // the lane's number in lanes
	queue    *queue // the lane counts as one of its uses
	ready    list   // tasks without a group, of the default priority, in the order in which they came due
	ranked   ranked // the other ready tasks
	firing   list
	retrying int  // tasks of a group that wait in the wheel for their next attempts
	touched  bool // the lane is in lanes.touched

	overdue   int64 // due time of its first ready task; valid while the lane is in its queue's heap
	waitingAt int   // position in that heap, from 1 on; 0: the lane has no ready task
}

// Rule returns the rule of the lane's queue. It is never nil, and the caller must not change it.
func (l *Lane) Rule() *fsmpb.QueueRule { return l.queue.rule }

// Pulled reports whether the lane's tasks wait for consumers. Otherwise they are pushed to a target.
func (l *Lane) Pulled() bool { return l.Destination == "" && !l.queue.rule.Pushed }

// Ready returns the number of tasks that wait for a grant.
func (l *Lane) Ready() int { return l.ready.len + l.ranked.len() }

// Firing returns the number of tasks that have a grant.
func (l *Lane) Firing() int { return l.firing.len }

func (l *Lane) isEmpty() bool { return l.Ready()+l.firing.len+l.retrying == 0 }

func (s *Store) loadOf(l *Lane) task.LaneLoad {
	load := task.LaneLoad{
		Lane: l.Lane, Ready: l.Ready(), Firing: l.firing.len, Retrying: l.retrying, Pulled: l.Pulled(),
		Waiting: l.ranked.counts,
	}
	load.Waiting[task.DefaultPriority-1] += int32(l.ready.len)
	if l.Group != "" {
		load.FirstMs = l.ranked.firstMs()
	}
	return load
}

// listed yields the ready and firing tasks of the lane.
func (l *Lane) listed(links listLinks) iter.Seq[handle] {
	return func(yield func(handle) bool) {
		for _, first := range []handle{l.ready.head, l.firing.head} {
			for h := first; h != 0; h = links.read(h).next {
				if !yield(h) {
					return
				}
			}
		}
		if l.ranked.ranks != nil {
			l.ranked.ranks.Ascend(func(r rank) bool { return yield(r.task) })
		}
	}
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

// FirstReady returns the ready task of a lane that is granted next: one of the best priority or, with inOrder set, the
// earliest. The lane must have a ready task.
func (s *Store) FirstReady(l *Lane, inOrder bool) Task {
	switch first, ok := l.ranked.first(inOrder); {
	case !ok, l.ready.head != 0 && first.priority > task.DefaultPriority:
		return Task{s, l.ready.head}
	default:
		return Task{s, first.task}
	}
}

// OpenLane returns the lane that delivers the task, and opens it if need be. It also returns the task's priority.
func (e Edit) OpenLane() (l *Lane, priority int) { return e.s.openLane(e.record()) }

func (s *Store) openLane(r *record) (l *Lane, priority int) {
	c := readCold(s.blobs.Get(r.cold))
	q, extra := s.queues.at(c.queue), s.extraOf(&c)
	priority = task.PriorityOf(extra.Priority)
	name := task.Lane{
		Namespace: q.namespace, Queue: q.name, Destination: s.destinationOf(&c, extra), Group: extra.Group,
	}
	if l := s.lanes.find(name); l != nil {
		return l, priority
	}
	s.queues.acquire(q.queueKey)
	l = &Lane{Lane: name, queue: q}
	l.number = s.lanes.add(name, l)
	return l, priority
}

// Wait puts the task among the ready tasks of a lane, behind those of its rank.
func (e Edit) Wait(l *Lane, priority int) {
	e.write().lane = l.number
	if l.isRanked(priority) {
		e.rank(l, priority, int64(e.s.Number))
	} else {
		l.ready.pushBack(e.s.links(), e.h, int64(e.s.Number))
	}
	e.s.lanes.touch(l)
}

// WaitFirst moves a firing task back to the ready tasks of its lane, before all others of its rank.
func (e Edit) WaitFirst() {
	l, priority := e.OpenLane()
	l.firing.remove(e.s.links(), e.h)
	if l.isRanked(priority) {
		e.rank(l, priority, -int64(e.s.Number))
	} else {
		l.ready.pushFront(e.s.links(), e.h, int64(e.s.Number))
	}
	e.s.lanes.touch(l)
}

// AwaitRetry makes the task wait in the wheel for its next attempt. A task of a group stays in its lane, because it
// holds its group where the queue keeps an order.
func (e Edit) AwaitRetry(untilMs int64) {
	e.LeaveList()
	e.SetState(fsmpb.State_STATE_RETRYING)
	e.WaitUntil(untilMs)
	e.s.countRetry(e.h)
}

// countRetry counts a retrying task in the lane of its group, if it has a group.
func (s *Store) countRetry(h handle) {
	r := s.tasks.Read(h)
	c := readCold(s.blobs.Get(r.cold))
	if s.extraOf(&c).Group == "" {
		return
	}
	l, _ := s.openLane(r)
	s.progress.Write(r.progress).lane = l.number
	l.retrying++
	s.lanes.touch(l)
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
		switch {
		case p.priority != 0:
			e.unrank(l)
		case r.is(fsmpb.State_STATE_READY):
			l.ready.remove(s.links(), e.h)
		case r.is(fsmpb.State_STATE_RETRYING):
			l.retrying--
		default:
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
			loads = append(loads, s.loadOf(l))
		}
		l.queue.waiting.place(l, s.links())
		if l.isEmpty() {
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
			loads = append(loads, s.loadOf(l))
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
