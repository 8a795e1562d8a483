package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// A plan has each task once, and the cancel of every tenth one after its schedule.
func TestPlan(t *testing.T) {
	for _, rate := range []float64{0, 100} {
		c := Config{Queue: "q", Tasks: 95, Rate: rate, Callers: 7}
		scheduled, stopped := map[int]bool{}, map[int]bool{}
		var last time.Duration
		for _, o := range c.plan() {
			if o.at < last || rate == 0 && o.at != 0 {
				t.Errorf("rate %v: %v is planned after %v", rate, o.at, last)
			}
			last = o.at
			switch {
			case o.cancel && (!scheduled[o.task] || stopped[o.task] || !cancelled(o.task)):
				t.Errorf("rate %v: a wrong cancel of %d", rate, o.task)
			case o.cancel:
				stopped[o.task] = true
			case scheduled[o.task]:
				t.Errorf("rate %v: %d comes twice", rate, o.task)
			default:
				scheduled[o.task] = true
			}
		}
		if len(scheduled) != 95 || len(stopped) != 9 {
			t.Errorf("rate %v: %d tasks, %d cancels", rate, len(scheduled), len(stopped))
		}
		if want := 1940 * time.Millisecond; rate > 0 && last != 1890*time.Millisecond && last != want {
			t.Errorf("the last call is planned at %v", last)
		}
	}
	c := Config{Queue: "q", Tasks: 5}
	for id, want := range map[string]int{"q-4": 4, "q-5": -1, "q-": -1, "q--1": -1, "r-1": -1, "q-clock": -1} {
		assert.Equal(t, c.taskOf(id), want, "%s", id)
	}
}

// The ledger finds a lost task, an early one, a repeat, and a receipt after a cancel, and no others.
func TestLedger(t *testing.T) {
	due := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l := newLedger(40, 2*time.Millisecond)
	for task := range 8 {
		l.scheduled(task, time.Millisecond, nil)
	}
	l.scheduled(8, time.Second, errors.New("no leader"))
	l.scheduled(9, time.Millisecond, nil)
	l.scheduled(19, time.Millisecond, nil)
	l.scheduled(29, time.Millisecond, nil)
	l.scheduled(10, time.Second, context.Canceled)

	l.received(0, due, due.Add(7*time.Millisecond))
	l.received(1, due, due.Add(-2*time.Millisecond)) // within the error of the clock
	l.received(2, due, due.Add(-3*time.Millisecond)) // early
	l.received(0, due, due.Add(time.Second))         // a repeat
	l.received(8, due, due)                          // of an unknown outcome
	l.cancelled(9, time.Millisecond, true, nil)
	l.received(9, due, due) // wrong
	l.received(19, due, due)
	l.cancelled(19, time.Millisecond, false, nil) // too late: it may arrive
	l.received(29, due, due)
	l.cancelled(29, time.Millisecond, true, nil) // wrong, too
	for task := 3; task < 7; task++ {
		l.received(task, due, due)
	}
	l.loaded()
	select {
	case <-l.changed:
		t.Error("task 7 counts as arrived")
	default:
	}
	r := &run{Config: Config{Grace: 1}, ledger: l}
	got := r.report(time.Second, false)
	if d := got.Delivery; d.Lost != 1 || d.Early != 1 || d.Repeated != 1 || d.AfterCancel != 2 || !got.Wrong() {
		t.Errorf("%+v", d)
	}
	if s := got.Schedule; s.Done != 11 || s.Failed != 1 || s.Error != "no leader" {
		t.Errorf("%+v", s)
	}
	if d := r.report(time.Second, true).Delivery; d.Lost != 0 || d.Pending != 1 {
		t.Errorf("interrupted: %+v", d)
	}
	l.received(7, due, due)
	<-l.changed // all have arrived
}

// A task that arrives before its schedule call is answered is awaited no more.
func TestReceiptBeforeAnswer(t *testing.T) {
	l := newLedger(1, 0)
	l.received(0, time.Now(), time.Now())
	l.scheduled(0, time.Millisecond, nil)
	l.loaded()
	<-l.changed
	if n := l.missing(); n != 0 {
		t.Errorf("%d are missing", n)
	}
}

func TestSpread(t *testing.T) {
	var samples []time.Duration
	for i := range 200 {
		samples = append(samples, time.Duration(200-i)*time.Millisecond)
	}
	got, want := spread(samples), (Spread{P50: 100, P99: 198, Max: 200})
	assert.Equal(t, got, want)
	got, want = spread(samples[:1]), (Spread{P50: 1, P99: 1, Max: 1})
	assert.Equal(t, got, want)
	assert.Equal(t, spread(nil), Spread{})
}

// The estimate of the clock is that of the shortest round trip, and its error covers the truth.
func TestClock(t *testing.T) {
	const offset = 1500 * time.Millisecond // true
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	c := Clock{Error: time.Hour}
	for _, trip := range []struct{ there, back time.Duration }{
		{90 * time.Millisecond, 10 * time.Millisecond}, {8 * time.Millisecond, 2 * time.Millisecond},
		{20 * time.Millisecond, 1 * time.Millisecond},
	} {
		c = c.nearer(began, trip.there+trip.back, began.Add(trip.there).Add(offset))
		if d := c.Offset - offset; d > c.Error || d < -c.Error {
			t.Errorf("%v ± %v, want %v", c.Offset, c.Error, offset)
		}
	}
	assert.Equal(t, c.Error, 6*time.Millisecond, "±")
}
