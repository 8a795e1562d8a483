package desk

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// maxShelfBytes bounds what may lie there. The rest is given back at once.
const maxShelfBytes = 16 << 20

// tidyEvery is how long there is at least between two times that it is tidied: a task may lie there so much longer.
const tidyEvery = time.Millisecond

// shelf holds tasks that were leased for a demand which had gone, or was lowered, by their instants. The desk's mutex
// guards it.
type shelf struct {
	desk  *Desk
	tasks []shelved // the longest there first
	bytes int
	armed bool // tidy will be called

	life  func() time.Duration // how long a task waits here for somebody to ask for it
	now   func() time.Time
	later func(time.Duration, func()) // calls a function after a while
}

type shelved struct {
	task.Grant
	task  *fsmpb.Task
	size  int
	terms Terms
	at    time.Time
}

// put returns false if there is no room, or nobody can ask for it because its terms are not known.
func (s *shelf) put(g task.Grant, task *fsmpb.Task, terms Terms) bool {
	size := task.SizeVT()
	if terms == (Terms{}) || s.bytes+size > maxShelfBytes {
		return false
	}
	s.tasks = append(s.tasks, shelved{Grant: g, task: task, size: size, terms: terms, at: s.now()})
	s.bytes += size
	s.arm(s.life())
	return true
}

func (s *shelf) arm(d time.Duration) {
	if !s.armed {
		s.armed = true
		s.later(d, s.desk.tidy)
	}
}

// offer hands a demand what it asks for. What was leased by other terms keeps nobody waiting: it is given back.
func (s *shelf) offer(d *Demand) {
	if len(s.tasks) == 0 || d.room() == 0 {
		return
	}
	var hinders []task.Grant
	s.take(func(t shelved) bool {
		if t.Lane != d.line.lane || d.room() == 0 {
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

// take removes what the caller wants.
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

// empty hands what lies there to whoever of its node stands in its lane, wanted or not: a desk that closes can give
// nothing back.
func (s *shelf) empty() {
	for _, t := range s.tasks {
		if l := s.desk.lines[t.Lane]; l != nil {
			l.unload(t.task, t.terms.Holder)
		}
	}
	s.tasks, s.bytes = nil, 0
}

// tidy gives back what has lain on the shelf for its time, and looks again when the next one's is over.
func (k *Desk) tidy() {
	k.mu.Lock()
	s := &k.shelf
	now := s.now()
	back := s.before(now.Add(1 - s.life()))
	s.armed = false
	if len(s.tasks) > 0 {
		s.arm(max(s.life()-now.Sub(s.tasks[0].at), tidyEvery))
	}
	k.mu.Unlock()
	k.release(back)
}

// Sweep gives back all that lies on the shelf.
func (k *Desk) Sweep() {
	k.mu.Lock()
	back := k.shelf.before(k.shelf.now().Add(1))
	k.mu.Unlock()
	k.release(back)
}

// before takes what came before an instant.
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
