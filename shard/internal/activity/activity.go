// Package activity counts the events of a replica in the last quarter of an hour, in steps of five seconds.
//
//	Began   counts an attempt by its lateness; only the leader begins attempts
//	Count   counts an event of an applied entry; every replica does
//	Since   returns the steps after an instant
//
// Rates, a heat map of lateness and their recent past can be drawn from one answer, also for a viewer that begins to
// watch only now, and also after a failover. Prometheus keeps the same numbers for longer, but may not be there. A Log
// has a bounded size, about 30 KB. It is safe for concurrent use.
package activity

import (
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const (
	stepMs = int64(task.ActivityStep / time.Millisecond)
	steps  = 15 * 60_000 / int(stepMs)
)

// step counts the events of one step.
type step struct {
	number int64 // Unix time divided by stepMs
	events [task.EventSkipped + 1]uint64
	late   [len(task.LatenessBounds) + 1]uint64 // attempts that nothing held
	held   [len(task.LatenessBounds) + 1]uint64 // late attempts whose tasks had waited in their lanes
}

// Log counts events. The zero Log is ready for use.
type Log struct {
	mu      sync.Mutex // guards the fields below
	sinceMs int64      // instant of the first event; 0: there was none
	steps   [steps]step
}

// promised is the lateness within which an attempt begins that nothing holds.
const promised = 20 * time.Millisecond

// Began counts an attempt that began so long after its due time. waited reports whether its task had waited in its
// lane: for a limit, a pause, a window, its receiver or a consumer. The attempt counts as held if it is later than
// promised, too: every task of a queue with a limit waits for its permit, most of them for a moment.
func (l *Log) Began(at time.Time, late time.Duration, waited bool) {
	class, _ := slices.BinarySearch(task.LatenessBounds[:], late)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.at(at.UnixMilli()); s != nil {
		if waited && late > promised {
			s.held[class]++
		} else {
			s.late[class]++
		}
	}
}

// Count counts an event.
func (l *Log) Count(e *task.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.at(e.AtMs); s != nil {
		s.events[e.Type]++
	}
}

// Restart forgets all events, because others are missing between them and the coming ones.
func (l *Log) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sinceMs, l.steps = 0, [steps]step{}
}

// at returns the step of an instant, nil if another one has taken its place.
func (l *Log) at(ms int64) *step {
	number := ms / stepMs
	s := &l.steps[int(number%int64(steps))]
	switch {
	case s.number > number:
		return nil
	case s.number < number:
		*s = step{number: number}
	}
	if l.sinceMs == 0 {
		l.sinceMs = ms
	}
	return s
}

// Since returns the steps with an event that begin after an instant, in Unix milliseconds, and no more than a quarter
// of an hour ago.
func (l *Log) Since(nowMs, afterMs int64) *fsmpb.Activity {
	oldest := nowMs/stepMs - int64(steps) + 1
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &fsmpb.Activity{SinceMs: max(l.sinceMs, oldest*stepMs)}
	if l.sinceMs == 0 {
		a.SinceMs = nowMs
	}
	for number := max(oldest, afterMs/stepMs+1); number <= nowMs/stepMs; number++ {
		if s := &l.steps[int(number%int64(steps))]; s.number == number {
			a.Steps = append(a.Steps, s.message())
		}
	}
	return a
}

func (s *step) message() *fsmpb.ActivityStep {
	return &fsmpb.ActivityStep{
		AtMs:      s.number * stepMs,
		Scheduled: s.events[task.EventScheduled], Fired: s.events[task.EventFired],
		Delivered: s.events[task.EventDelivered], Failed: s.events[task.EventFailed],
		Dead:      s.events[task.EventDead] + s.events[task.EventExpired],
		Cancelled: s.events[task.EventCancelled], Skipped: s.events[task.EventSkipped],
		Late: slices.Clone(s.late[:]), Held: slices.Clone(s.held[:]),
	}
}
