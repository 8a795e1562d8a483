package awake

import (
	"sync"
	"time"
)

// A limit has this many steps, each within these bounds.
const (
	steps   = 20
	minStep = time.Millisecond
	maxStep = time.Second
)

// Timer calls its function once the process has run for the Timer's limit. It is safe for concurrent use.
type Timer struct {
	limit time.Duration
	ring  func()
	now   func() time.Time

	mu    sync.Mutex
	meter meter
	next  *time.Timer // the end of the step
	over  bool        // stopped, or rung
}

// AfterFunc makes a Timer that calls ring in a goroutine of its own once the process has run for limit.
func AfterFunc(limit time.Duration, ring func()) *Timer { return start(limit, ring, time.Now) }

func start(limit time.Duration, ring func(), now func() time.Time) *Timer {
	t := &Timer{limit: limit, ring: ring, now: now}
	t.meter = meter{step: min(max(limit/steps, minStep), maxStep), last: now()}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = time.AfterFunc(min(limit, t.meter.step), t.look)
	return t
}

// Stop keeps the Timer from ringing, and reports whether it did: false if it has rung or was stopped before.
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

// look ends a step, and begins the next one unless the limit is reached.
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
