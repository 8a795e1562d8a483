package store

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Lane is the line of tasks before one receiver, or the tasks of one group in that line. A due task is in exactly one
// of its parts. A lane is open as long as it has a task. It is valid until the end of the entry that leaves it empty.
type Lane struct {
	task.Lane
	number   uint32 // the lane's number in lanes
	queue    *queue // the lane counts as one of its uses
	fresh    list   // tasks without a group, of the default priority, in the order in which they came due
	retried  list   // those of them with an ended attempt
	ranked   ranked // the other ready tasks
	firing   list
	retrying int  // tasks of a group or an isolated path that wait in the wheel for their next attempts
	isolated bool // the lane stands for its path's isolation: it is open even without a task
	groups   int  // of such a lane: the open lanes of its path's groups
	touched  bool // the lane is in lanes.touched

	overdue   int64 // due time of its first ready task; valid while the lane is in its queue's heap
	waitingAt int   // position in that heap, from 1 on; 0: the lane has no ready task
}

// Rule returns the rule of the lane's queue. It is never nil, and the caller must not change it.
func (l *Lane) Rule() *fsmpb.QueueRule { return l.queue.rule }

// Pulled reports whether the lane's tasks wait for consumers. Otherwise they are pushed to a target.
func (l *Lane) Pulled() bool { return l.Destination == "" && !l.queue.rule.Pushed }

// Ready returns the number of tasks that wait for a grant.
func (l *Lane) Ready() int { return l.fresh.len + l.retried.len + l.ranked.len() }

// Firing returns the number of tasks that have a grant.
func (l *Lane) Firing() int { return l.firing.len }

func (l *Lane) hasTasks() bool { return l.Ready()+l.firing.len+l.retrying > 0 }

func (ls *Lanes) loadOf(l *Lane) task.LaneLoad {
	load := task.LaneLoad{
		Lane: l.Lane, Ready: l.Ready(), Firing: l.firing.len, Retrying: l.retrying, Pulled: l.Pulled(),
		Isolated: l.isolated, Waiting: l.ranked.counts,
	}
	load.Waiting[task.DefaultPriority-1] += int32(l.fresh.len + l.retried.len)
	switch {
	case l.Group != "":
		load.FirstMs = l.ranked.firstMs()
	case load.Pulled && l.fresh.len+l.retried.len > 0:
		load.NextMs = Task{ls.s, Oldest.of(ls.s.mem.links(), l.fresh.head, l.fresh.tail, l.retried.head)}.FireAtMs()
	}
	return load
}

// listed yields the ready and firing tasks of the lane.
func (l *Lane) listed(links listLinks) iter.Seq[handle] {
	return func(yield func(handle) bool) {
		for _, first := range []handle{l.fresh.head, l.retried.head, l.firing.head} {
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

// Lanes are the open lanes: those that have a task, and those of isolated paths. Number 0 means no lane.
type Lanes struct {
	numbered[task.Lane, Lane]
	s           *Store
	touched     []*Lane // lanes whose lists this entry has changed; some may be empty by now
	isolation   isolation
	newRankTree func() rankTree // for a lane
}

func newLanes(s *Store) Lanes {
	return Lanes{
		numbered: newNumbered[task.Lane, Lane](nil), s: s,
		isolation:   isolation{receivers: map[task.Lane]map[string]*Lane{}},
		newRankTree: newRankTrees(),
	}
}

// touch notes that the entry has changed a lane.
func (ls *Lanes) touch(l *Lane) {
	if !l.touched {
		l.touched = true
		ls.touched = append(ls.touched, l)
	}
}

// Choice is the kind of ready task that a grant prefers.
type Choice int

// The kinds of ready tasks.
const (
	OldestFresh Choice = iota // of the tasks without an ended attempt
	NewestFresh
	OldestRetried // of the others
	Oldest        // of all
)

// FirstReady returns the ready task of a lane that is granted next: one of the best priority and of the kind preferred
// or, in a group's lane with inOrder set, the earliest. The lane must have a ready task.
func (ls *Lanes) FirstReady(l *Lane, inOrder bool, prefer Choice) Task {
	first, ok := l.ranked.first(inOrder)
	switch {
	case l.Group != "":
		return Task{ls.s, first.task}
	case l.fresh.len+l.retried.len > 0 && (!ok || first.priority > task.DefaultPriority):
		return Task{ls.s, prefer.of(ls.s.mem.links(), l.fresh.head, l.fresh.tail, l.retried.head)}
	}
	oldest, newest, retried := l.ranked.ends(first.priority)
	return Task{ls.s, prefer.of(ls.s.mem.links(), oldest, newest, retried)}
}

// of returns the preferred one of the tasks of one priority. oldest and newest are 0 if all of them are retried, and
// retried is 0 if none is.
func (prefer Choice) of(links listLinks, oldest, newest, retried handle) handle {
	switch {
	case oldest == 0 || retried == 0:
		if prefer == NewestFresh {
			oldest = newest
		}
		return cmp.Or(oldest, retried)
	case prefer == NewestFresh:
		return newest
	case prefer == OldestRetried, prefer == Oldest && links.read(retried).order < links.read(oldest).order:
		return retried
	}
	return oldest
}

// OpenLane returns the lane that delivers the task, and opens it if need be. It also returns the task's priority.
func (e Edit) OpenLane() (l *Lane, priority int) {
	name, priority := e.s.Lanes.nameOf(e.record())
	return e.s.Lanes.open(name), priority
}

// nameOf returns the name of the lane that delivers a task, and the task's priority.
func (ls *Lanes) nameOf(r *record) (name task.Lane, priority int) {
	name, path, priority := ls.s.mem.laneAndPathOf(r)
	if ls.isolation.paths > 0 && ls.isolation.has(name.Destined(), path) {
		name.Path = path
	}
	return name, priority
}

// laneAndPathOf returns the name of the lane that delivers a task while no path is isolated, and the path of its
// target.
func (m *memory) laneAndPathOf(r *record) (name task.Lane, path string, priority int) {
	c := readCold(m.blobs.Get(r.cold))
	q, extra := m.queues.at(c.queue), m.extraOf(&c)
	destination, path := m.receiverOf(&c, extra)
	name = task.Lane{Namespace: q.namespace, Queue: q.name, Destination: destination, Group: extra.Spec.Group}
	return name, path, task.PriorityOf(extra.Spec.Priority)
}

func (ls *Lanes) open(name task.Lane) *Lane {
	if l := ls.Find(name); l != nil {
		return l
	}
	l := &Lane{Lane: name, queue: ls.s.mem.queues.acquire(queueKey{name.Namespace, name.Queue})}
	l.number = ls.add(name, l)
	ls.isolation.countGroup(name, 1)
	return l
}

// Wait puts the task among the ready tasks of a lane, behind those of its rank.
func (e Edit) Wait(l *Lane, priority int) { e.wait(l, priority, int64(e.s.Number)) }

// WaitFirst moves a firing task back to the ready tasks of its lane, before all others of its rank.
func (e Edit) WaitFirst() {
	l := e.Lane()
	_, priority := e.s.Lanes.nameOf(e.record())
	e.LeaveList()
	if l.isRanked(priority) {
		e.wait(l, priority, -int64(e.s.Number))
		return
	}
	e.join(l)
	e.waiting(l).pushFront(e.s.mem.links(), e.h, int64(e.s.Number))
}

func (e Edit) wait(l *Lane, priority int, order int64) {
	e.join(l)
	if waiting := e.waiting(l); l.isRanked(priority) {
		l.putRanked(e, priority, order)
	} else {
		waiting.pushBack(e.s.mem.links(), e.h, order)
	}
}

// waiting notes whether an attempt of the task has ended, and returns the list for such tasks.
func (e Edit) waiting(l *Lane) *list {
	p := e.write()
	if p.retried = p.attempts > 0 || e.s.mem.hasPast(p); p.retried {
		return &l.retried
	}
	return &l.fresh
}

// join makes l the lane of a task that is in none.
func (e Edit) join(l *Lane) {
	p := e.write()
	p.lane, p.isolated = l.number, l.Path != ""
	e.s.Lanes.touch(l)
}

// AwaitRetry makes the task wait in the wheel for its next attempt. A task of a group stays in its lane, because it
// holds its group where the queue keeps an order. A task of an isolated path stays in its lane, because the path is
// isolated as long as it has tasks that failed.
func (e Edit) AwaitRetry(untilMs int64) {
	e.LeaveList()
	e.SetState(fsmpb.State_STATE_RETRYING)
	e.WaitUntil(untilMs)
	name, _ := e.s.Lanes.nameOf(e.record())
	e.countRetry(name)
}

// countRetry counts a retrying task in its lane, if that is the lane of a group or of an isolated path.
func (e Edit) countRetry(name task.Lane) {
	if name.Group+name.Path != "" {
		l := e.s.Lanes.open(name)
		e.join(l)
		l.retrying++
	}
}

// Fire puts the task, which is in no list, into a lane's firing list.
func (e Edit) Fire(l *Lane) {
	e.join(l)
	l.firing.pushBack(e.s.mem.links(), e.h, int64(e.s.Number))
}

// LeaveList takes the task out of its lane's list or out of the tombstones.
func (e Edit) LeaveList() {
	s, r := e.s, e.record()
	if r.progress == 0 {
		return
	}
	p := s.mem.progress.Read(r.progress)
	switch {
	case p.lane != 0:
		l := s.Lanes.at(p.lane)
		switch {
		case p.priority != 0:
			l.takeRanked(e)
		case r.is(fsmpb.State_STATE_READY) && p.retried:
			l.retried.remove(s.mem.links(), e.h)
		case r.is(fsmpb.State_STATE_READY):
			l.fresh.remove(s.mem.links(), e.h)
		case r.is(fsmpb.State_STATE_RETRYING):
			l.retrying--
		default:
			l.firing.remove(s.mem.links(), e.h)
		}
		p := s.mem.progress.Write(r.progress)
		p.lane, p.retried, p.isolated = 0, false, false
		s.Lanes.touch(l)
	case p.size != 0:
		s.tombstones.remove(s.mem.links(), e.h)
		s.tombstoneBytes -= int64(p.size)
		s.mem.progress.Write(r.progress).size = 0
	}
}

// Settle ends an entry. It closes the lanes that the entry left empty, because there may have been as many lanes
// as receivers. It returns the loads of the lanes that the entry has changed if full is set.
func (ls *Lanes) Settle(full bool) []task.LaneLoad {
	var loads []task.LaneLoad
	for i, l := range ls.touched {
		ls.touched[i] = nil
		l.touched = false
		if full {
			loads = append(loads, ls.loadOf(l))
		}
		l.queue.waiting.place(l, ls.s.mem.links())
		if !l.hasTasks() && !l.isolated {
			ls.remove(l.Lane)
			ls.isolation.countGroup(l.Lane, -1)
			ls.s.mem.queues.release(l.queue)
		}
	}
	ls.touched = ls.touched[:0]
	return loads
}

// Loads returns the load of every open lane, in no particular order.
func (ls *Lanes) Loads() []task.LaneLoad {
	loads := make([]task.LaneLoad, 0, len(ls.numbers))
	for _, l := range ls.values {
		if l != nil {
			loads = append(loads, ls.loadOf(l))
		}
	}
	return loads
}

// PushedGrants returns the tasks with a running attempt that no consumer has, in the order in which the attempts
// began.
func (ls *Lanes) PushedGrants() []Task { return slices.DeleteFunc(ls.Firing(), Task.Leased) }

// Firing returns the tasks with a running attempt, in the order in which the attempts began. The order of the lanes
// themselves differs between replicas.
func (ls *Lanes) Firing() []Task {
	var firing []Task
	for _, l := range ls.values {
		if l == nil {
			continue
		}
		for h := l.firing.head; h != 0; h = ls.s.mem.links().read(h).next {
			firing = append(firing, Task{ls.s, h})
		}
	}
	slices.SortFunc(firing, func(a, b Task) int { return cmp.Compare(a.read().order, b.read().order) })
	return firing
}

// isolation holds the isolated paths: those whose tasks have lanes of their own. The lane of an isolated path without a
// group is always open.
type isolation struct {
	receivers map[task.Lane]map[string]*Lane // by the lane of the receiver's other paths, then by path
	paths     int                            // of all receivers
}

func (i *isolation) has(receiver task.Lane, path string) bool {
	return i.receivers[receiver][path] != nil
}

// countGroup adds n, 1 or -1, to the open lanes of an isolated path's groups.
func (i *isolation) countGroup(name task.Lane, n int) {
	if name.Path != "" && name.Group != "" {
		i.receivers[name.Destined()][name.Path].groups += n
	}
}

// Isolate gives the tasks of a path a lane of their own. Tasks in the receiver's lane stay there. It changes nothing if
// there are too many isolated paths.
func (ls *Lanes) Isolate(name task.Lane) {
	name = cloned(name)
	i, receiver := &ls.isolation, name.Destined()
	paths := i.receivers[receiver]
	if name.Destination == "" || name.Path == "" || paths[name.Path] != nil ||
		len(paths) >= task.MaxIsolatedPaths || i.paths >= task.MaxIsolated {
		return
	}
	if paths == nil {
		paths = map[string]*Lane{}
		i.receivers[receiver] = paths
	}
	l := ls.open(name)
	l.isolated, paths[name.Path] = true, l
	i.paths++
	ls.touch(l)
}

// EndIsolation ends the isolation of a path without tasks.
func (ls *Lanes) EndIsolation(name task.Lane) {
	i, receiver := &ls.isolation, name.Destined()
	l := i.receivers[receiver][name.Path]
	if l == nil || l.hasTasks() || l.groups > 0 {
		return
	}
	l.isolated = false
	ls.touch(l)
	delete(i.receivers[receiver], name.Path)
	if len(i.receivers[receiver]) == 0 {
		delete(i.receivers, receiver)
	}
	i.paths--
}

// IsIsolated reports whether the path of a ready task is isolated, and the task waits in the lane of the other paths.
func (ls *Lanes) IsIsolated(t Task) bool {
	if ls.isolation.paths == 0 || t.read().isolated {
		return false
	}
	name, _ := ls.nameOf(t.record())
	return name.Path != ""
}

// messages returns the lanes of all isolated paths, sorted.
func (i *isolation) messages() (lanes []*fsmpb.Lane) {
	for _, paths := range i.receivers {
		for _, l := range paths {
			lanes = append(lanes, &fsmpb.Lane{
				Namespace: l.Namespace, Queue: l.Queue, Destination: l.Destination, Path: l.Path,
			})
		}
	}
	slices.SortFunc(lanes, func(a, b *fsmpb.Lane) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Queue, b.Queue),
			cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Path, b.Path))
	})
	return lanes
}

// cloned returns a name that does not point into the entry that brought it.
func cloned(l task.Lane) task.Lane {
	return task.Lane{
		Namespace: strings.Clone(l.Namespace), Queue: strings.Clone(l.Queue),
		Destination: strings.Clone(l.Destination), Path: strings.Clone(l.Path), Group: strings.Clone(l.Group),
	}
}
