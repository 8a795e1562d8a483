package awake

import (
	"sync"
	"time"
)

// The number of steps of a limit, and the bounds of a step.
const (
	steps   = 20
	minStep = time.Millisecond
	maxStep = time.Second
)

// Timer calls a function once the process has run for the Timer's limit. It is safe for concurrent use.
type Timer struct {
	limit time.Duration
	ring  func()
	now   func() time.Time

	mu    sync.Mutex
	meter meter
	next  *time.Timer // fires at the end of the step
	over  bool        // the Timer was stopped or has rung
}

// AfterFunc returns a Timer that calls ring in a goroutine of its own once the process has run for limit.
func AfterFunc(limit time.Duration, ring func()) *Timer { return start(limit, ring, time.Now) }

func start(limit time.Duration, ring func(), now func() time.Time) *Timer {
	t := &Timer{limit: limit, ring: ring, now: now}
	t.meter = meter{step: min(max(limit/steps, minStep), maxStep), last: now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = time.AfterFunc(min(limit, t.meter.step), t.look)
	return t
}

// Stop prevents the Timer from ringing. It returns false if the Timer has rung or was stopped before.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	t.next.Stop()
	return true
}

// look ends a step. It begins the next one or rings.
func (t *Timer) look() {
	if t.isReached() {
		t.ring()
	}
}

func (t *Timer) isReached() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.meter.see(t.now())
	if left := t.limit - t.meter.ran; left > 0 {
		t.next.Reset(min(left, t.meter.step))
		return false
	}
	t.over = true
	return true
}
