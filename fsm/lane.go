package fsm

import "github.com/belfryhq/belfry/fsm/task"

// lane is one receiver's line. A due task is in exactly one of its two lists.
type lane struct {
	task.Lane
	number  uint32 // its own, in lanes
	queue   *queue // it counts as a use of it
	ready   list
	firing  list
	touched bool // it is in lanes.touched

	overdue   int64 // when its first ready task was due; good while it is in its queue's heap
	waitingAt int   // its place in that heap, from 1 on; 0: nobody waits
}

// pulled tells whether its tasks wait for consumers.
func (l *lane) pulled() bool { return l.Destination == "" && !l.queue.rule.Pushed }

func (l *lane) load() task.LaneLoad {
	return task.LaneLoad{Lane: l.Lane, Ready: l.ready.len, Firing: l.firing.len, Pulled: l.pulled()}
}

// lanes holds the lanes that have a task in them.
type lanes struct {
	numbers map[task.Lane]uint32
	lanes   []*lane // by number; 0 is none
	free    []uint32
	touched []*lane // whose lists this entry changed, and which may be empty by now
}

func newLanes() lanes {
	return lanes{numbers: map[task.Lane]uint32{}, lanes: make([]*lane, 1)}
}

// find returns a lane that is open, nil for none.
func (ls *lanes) find(key task.Lane) *lane { return ls.lanes[ls.numbers[key]] }

// touch notes that the entry changed a lane.
func (ls *lanes) touch(l *lane) {
	if !l.touched {
		l.touched = true
		ls.touched = append(ls.touched, l)
	}
}

// openLane returns the lane that a task is delivered through.
func (s *state) openLane(r *record) *lane {
	c := readCold(s.blobs.Get(r.cold))
	q := s.queues.list[c.queue]
	key := task.Lane{Namespace: q.namespace, Queue: q.name, Destination: s.destinationOf(&c, s.extraOf(&c))}
	if l := s.lanes.find(key); l != nil {
		return l
	}
	s.queues.acquire(q.queueKey)
	return s.lanes.add(&lane{Lane: key, queue: q})
}

func (ls *lanes) add(l *lane) *lane {
	if k := len(ls.free); k > 0 {
		l.number, ls.free = ls.free[k-1], ls.free[:k-1]
		ls.lanes[l.number] = l
	} else {
		l.number = uint32(len(ls.lanes))
		ls.lanes = append(ls.lanes, l)
	}
	ls.numbers[l.Lane] = l.number
	return l
}

// settleLanes ends an entry: lanes that it left empty are forgotten, for there may have been as many as there are
// receivers. It returns what the lanes that the entry changed hold now, if that is wanted.
func (s *state) settleLanes(full bool) []task.LaneLoad {
	var loads []task.LaneLoad
	for i, l := range s.lanes.touched {
		s.lanes.touched[i] = nil
		l.touched = false
		if full {
			loads = append(loads, l.load())
		}
		l.queue.waiting.place(l, s.links())
		if l.ready.len+l.firing.len == 0 {
			s.closeLane(l)
		}
	}
	s.lanes.touched = s.lanes.touched[:0]
	return loads
}

func (s *state) closeLane(l *lane) {
	delete(s.lanes.numbers, l.Lane)
	s.lanes.lanes[l.number] = nil
	s.lanes.free = append(s.lanes.free, l.number)
	s.queues.release(l.queue)
}

// waitReady puts a task at the end of its lane's ready list.
func (s *state) waitReady(h handle, l *lane) {
	s.progressOf(h).lane = l.number
	l.ready.pushBack(s.links(), h, int64(s.number))
	s.lanes.touch(l)
}

// Loads returns what every lane that holds a task holds, in no particular order. A leader asks once, and learns from
// each Applied what changes.
func (m *Machine) Loads() []task.LaneLoad {
	m.mu.RLock()
	defer m.mu.RUnlock()
	loads := make([]task.LaneLoad, 0, len(m.lanes.numbers))
	for _, l := range m.lanes.lanes {
		if l != nil {
			loads = append(loads, l.load())
		}
	}
	return loads
}
