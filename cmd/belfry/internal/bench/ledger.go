package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// record is the fate of one task.
type record struct {
	scheduled bool // the call succeeded
	stopped   bool // a cancel of it was sent: it may arrive or not
	cancelled bool // a cancel succeeded before an attempt: it must not arrive
	arrived   int  // number of receipts
}

// ledger holds the fates of all tasks, and the samples. It is safe for concurrent use.
type ledger struct {
	mu        sync.Mutex
	tasks     []record
	schedule  calls
	cancel    calls
	lateness  []time.Duration // of first receipts, by the cluster's clock
	early     int             // first receipts before the due time
	repeated  int             // receipts after a task's first one
	wrong     int             // receipts of cancelled tasks
	awaited   int             // tasks that must arrive and have not yet
	loading   bool            // calls are under way or to come
	changed   chan struct{}   // closed when all have arrived
	firstSeen time.Time
	lastSeen  time.Time
	tolerance time.Duration // error of the estimate of the cluster's clock
}

// calls are the results of calls of one kind.
type calls struct {
	latency []time.Duration // of successful calls
	last    time.Time       // end of the last of them
	failed  int
	err     error // of the first that failed
}

func newLedger(tasks int, tolerance time.Duration) *ledger {
	return &ledger{tasks: make([]record, tasks), loading: true, changed: make(chan struct{}), tolerance: tolerance}
}

// add counts a call. A call that ended with the run's context was not answered, and counts nowhere.
func (c *calls) add(latency time.Duration, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		if c.failed++; c.err == nil {
			c.err = err
		}
	default:
		c.latency = append(c.latency, latency)
		c.last = time.Now()
	}
}

func (l *ledger) scheduled(task int, latency time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule.add(latency, err)
	if r := &l.tasks[task]; err == nil {
		r.scheduled = true
		if r.arrived == 0 && !cancelled(task) {
			l.awaited++
		}
	}
}

func (l *ledger) isScheduled(task int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tasks[task].scheduled
}

func (l *ledger) cancelled(task int, latency time.Duration, before bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel.add(latency, err)
	r := &l.tasks[task]
	r.stopped = true
	if r.cancelled = err == nil && before; r.cancelled {
		l.wrong += r.arrived
	}
}

// received counts a receipt at a time of the cluster's clock.
func (l *ledger) received(task int, due, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.tasks[task]
	if l.lastSeen = at; l.firstSeen.IsZero() {
		l.firstSeen = at
	}
	switch {
	case r.cancelled:
		l.wrong++
	case r.arrived > 0:
		l.repeated++
	default:
		late := at.Sub(due)
		if late < -l.tolerance {
			l.early++
		}
		l.lateness = append(l.lateness, max(late, 0))
		if r.scheduled && !cancelled(task) {
			l.awaited--
		}
	}
	r.arrived++
	l.signal()
}

// loaded tells that no call is to come.
func (l *ledger) loaded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loading = false
	l.signal()
}

// signal closes changed once every task has arrived.
func (l *ledger) signal() {
	if l.awaited == 0 && !l.loading {
		select {
		case <-l.changed:
		default:
			close(l.changed)
		}
	}
}

// missing returns the number of tasks that must arrive and have not.
func (l *ledger) missing() int {
	n := 0
	for i := range l.tasks {
		if r := &l.tasks[i]; r.scheduled && !r.stopped && !cancelled(i) && r.arrived == 0 {
			n++
		}
	}
	return n
}
