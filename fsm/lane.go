package fsm

import "github.com/belfryhq/belfry/fsm/slab"

// Lane names who receives: one queue's destination, or a pull queue (empty Destination).
type Lane struct {
	Namespace, Queue, Destination string
}

// LaneLoad is what a webhook lane holds: Ready tasks that wait for a grant, and Firing ones.
type LaneLoad struct {
	Lane          Lane
	Ready, Firing int
}

// lane is one receiver's line. A due task is in exactly one of its two lists.
type lane struct {
	Lane
	number uint32 // its own, in lanes
	ready  list
	firing list
}

func (l *lane) pulled() bool { return l.Destination == "" }

// lanes holds the lanes that have a task in them.
type lanes struct {
	numbers map[Lane]uint32
	lanes   []*lane // by number; 0 is none
	free    []uint32
}

func newLanes() lanes {
	return lanes{numbers: map[Lane]uint32{}, lanes: make([]*lane, 1)}
}

func (ls *lanes) open(key Lane) *lane {
	if n, ok := ls.numbers[key]; ok {
		return ls.lanes[n]
	}
	l := &lane{Lane: key}
	if k := len(ls.free); k > 0 {
		l.number, ls.free = ls.free[k-1], ls.free[:k-1]
		ls.lanes[l.number] = l
	} else {
		l.number = uint32(len(ls.lanes))
		ls.lanes = append(ls.lanes, l)
	}
	ls.numbers[key] = l.number
	return l
}

// closeIfEmpty forgets a lane that holds nothing: there may have been as many as there are receivers.
func (ls *lanes) closeIfEmpty(l *lane) {
	if l.ready.len+l.firing.len > 0 {
		return
	}
	delete(ls.numbers, l.Lane)
	ls.lanes[l.number] = nil
	ls.free = append(ls.free, l.number)
}

// list is a doubly linked list of tasks through their progress records, by rising order.
type list struct {
	head, tail handle // of tasks
	len        int
}

// listLinks reaches the links of a task.
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

// pushFront puts a task that was given back before all others.
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
