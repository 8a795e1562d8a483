package desk

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxShelfBytes limits the bytes of the tasks on the shelf. Further tasks are given back at once.
const maxShelfBytes = 16 << 20

// tidyEvery is the shortest time between two calls of tidy. A task may stay on the shelf that much too long.
const tidyEvery = time.Millisecond

// shelf holds leased and due tasks whose demand has gone or was lowered before their instants. The desk's mutex guards
// it.
type shelf struct {
	desk  *Desk
	tasks []shelved // the oldest first
	bytes int
	armed bool // a call of tidy is scheduled

	now   func() time.Time
	later func(time.Duration, func()) // calls a function after a delay
}

type shelved struct {
	task.Grant
	task  *fsmpb.Task
	size  int
	terms Terms
	at    time.Time
}

// put adds a task. It returns false if there is no room, or if the terms are unknown, so that no demand can match them.
func (s *shelf) put(g task.Grant, task *fsmpb.Task, terms Terms) bool {
	size := task.SizeVT()
	if terms == (Terms{}) || s.bytes+size > maxShelfBytes {
		return false
	}
	s.tasks = append(s.tasks, shelved{Grant: g, task: task, size: size, terms: terms, at: s.now()})
	s.bytes += size
	s.arm(s.desk.leadership.Keep())
	return true
}

func (s *shelf) arm(d time.Duration) {
	if !s.armed {
		s.armed = true
		s.later(d, s.desk.tidy)
	}
}

// offer hands a demand the tasks of its terms, as far as it has room. It gives back the lane's tasks of other terms, so
// that the demand need not wait for their time on the shelf.
func (s *shelf) offer(d *Demand) {
	if len(s.tasks) == 0 || d.room() == 0 {
		return
	}
	var hinders []task.Grant
	s.take(func(t shelved) bool {
		if t.Lane.Receiver() != d.line.lane || d.room() == 0 {
			return false
		}
		if t.terms != d.terms {
			hinders = append(hinders, t.Grant)
			return true
		}
		d.granted++
		d.put(t.task)
		return true
	})
	if len(d.parcel) > 0 {
		d.deliver()
	}
	if len(hinders) > 0 {
		s.later(0, func() { s.desk.release(hinders) })
	}
}

// take removes the tasks for which wanted returns true.
func (s *shelf) take(wanted func(shelved) bool) {
	kept := s.tasks[:0]
	for _, t := range s.tasks {
		if wanted(t) {
			s.bytes -= t.size
		} else {
			kept = append(kept, t)
		}
	}
	clear(s.tasks[len(kept):])
	s.tasks = kept
}

// empty hands each task to the first demand of its lane and node, even one without room. A closing desk can give
// nothing back.
func (s *shelf) empty() {
	for _, t := range s.tasks {
		if l := s.desk.lines[t.Lane.Receiver()]; l != nil {
			l.unload(t.task, t.terms.Holder)
		}
	}
	s.tasks, s.bytes = nil, 0
}

// tidy gives back the tasks whose time on the shelf is over, and schedules itself for the next one.
func (k *Desk) tidy() {
	k.mu.Lock()
	s := &k.shelf
	now := s.now()
	back := s.before(now.Add(1 - s.desk.leadership.Keep()))
	s.armed = false
	if len(s.tasks) > 0 {
		s.arm(max(s.desk.leadership.Keep()-now.Sub(s.tasks[0].at), tidyEvery))
	}
	k.mu.Unlock()
	k.release(back)
}

// Sweep gives back all tasks on the shelf.
func (k *Desk) Sweep() {
	k.mu.Lock()
	back := k.shelf.before(k.shelf.now().Add(1))
	k.mu.Unlock()
	k.release(back)
}

// before removes and returns the tasks that came before limit.
func (s *shelf) before(limit time.Time) (grants []task.Grant) {
	s.take(func(t shelved) bool {
		old := t.at.Before(limit)
		if old {
			grants = append(grants, t.Grant)
		}
		return old
	})
	return grants
}
