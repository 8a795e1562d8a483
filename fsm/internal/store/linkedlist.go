package store

import "github.com/belfryhq/belfry/fsm/internal/slab"

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
