package activity

import (
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

const begin = int64(1_000_000_000)

func count(l *Log, atMs int64, types ...task.EventType) {
	for _, kind := range types {
		l.Count(&task.Event{Type: kind, AtMs: atMs})
	}
}

// Events and attempts count for the step of their instant.
func TestSteps(t *testing.T) {
	l := &Log{}
	count(l, begin, task.EventScheduled, task.EventScheduled, task.EventFired)
	l.Began(time.UnixMilli(begin), -time.Millisecond, false)
	l.Began(time.UnixMilli(begin+1000), time.Millisecond, false)
	l.Began(time.UnixMilli(begin+4999), time.Millisecond+1, false)
	l.Began(time.UnixMilli(begin+4999), time.Second, true)
	l.Began(time.UnixMilli(begin+4999), 20*time.Millisecond, true)
	count(l, begin+4999, task.EventDelivered)
	count(l, begin+5000, task.EventFailed, task.EventDead, task.EventExpired, task.EventCancelled, task.EventSkipped)
	l.Began(time.UnixMilli(begin+5000), time.Hour, false)

	a := l.Since(begin+5000, 0)
	if len(a.Steps) != 2 || a.SinceMs != begin {
		t.Fatalf("%v", a)
	}
	first, second := a.Steps[0], a.Steps[1]
	if first.AtMs != begin || first.Scheduled != 2 || first.Fired != 1 || first.Delivered != 1 || first.Failed != 0 ||
		!slices.Equal(first.Late, []uint64{2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}) ||
		!slices.Equal(first.Held, []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}) {
		t.Errorf("first step: %v", first)
	}
	if second.AtMs != begin+5000 || second.Failed != 1 || second.Dead != 2 || second.Cancelled != 1 ||
		second.Skipped != 1 || second.Late[len(task.LatenessBounds)] != 1 {
		t.Errorf("second step: %v", second)
	}
	if later := l.Since(begin+5000, begin); len(later.Steps) != 1 || later.Steps[0].AtMs != begin+5000 {
		t.Errorf("after the first step: %v", later)
	}
}

// A step is there for a quarter of an hour. A later one takes its place, and an earlier one does not.
func TestPlacesAreUsedAgain(t *testing.T) {
	later := begin + 15*60_000
	l := &Log{}
	count(l, begin, task.EventFired)
	if a := l.Since(later-1, 0); len(a.Steps) != 1 || a.SinceMs != begin {
		t.Errorf("before its end: %v", a)
	}
	if a := l.Since(later, 0); len(a.Steps) != 0 || a.SinceMs != begin+5000 {
		t.Errorf("after its end: %v", a)
	}
	count(l, later, task.EventFired, task.EventFired)
	count(l, begin, task.EventFired)
	if a := l.Since(later, 0); len(a.Steps) != 1 || a.Steps[0].Fired != 2 {
		t.Errorf("after a later event: %v", a)
	}
}

// A Log begins with its first event, and anew after a gap.
func TestSince(t *testing.T) {
	l := &Log{}
	if a := l.Since(begin, 0); a.SinceMs != begin || len(a.Steps) != 0 {
		t.Errorf("without an event: %v", a)
	}
	count(l, begin, task.EventFired)
	l.Restart()
	count(l, begin+60_000, task.EventFired)
	if a := l.Since(begin+70_000, 0); a.SinceMs != begin+60_000 || len(a.Steps) != 1 {
		t.Errorf("after a gap: %v", a)
	}
}
