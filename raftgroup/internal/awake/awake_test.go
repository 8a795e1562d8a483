package awake

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
)

// sleeper is a process that can be stopped: its clock runs ahead of the bubble's timers by the time that it slept.
type sleeper struct{ slept atomic.Int64 }

func (s *sleeper) now() time.Time        { return time.Now().Add(time.Duration(s.slept.Load())) }
func (s *sleeper) sleep(d time.Duration) { s.slept.Add(int64(d)) }

// ringing returns a Timer and the time on its clock at which it rang, 0 until then.
func ringing(s *sleeper, limit time.Duration) (*Timer, *atomic.Int64) {
	var rang atomic.Int64
	began := s.now()
	return start(limit, func() { rang.Store(int64(s.now().Sub(began))) }, s.now), &rang
}

func TestRingsAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{0, 1, time.Millisecond, time.Second, 10 * time.Second, 20 * time.Second, time.Hour} {
			_, rang := ringing(new(sleeper), limit)
			time.Sleep(limit - 1)
			synctest.Wait()
			if got := rang.Load(); got != 0 {
				t.Errorf("a limit of %v rang after %v", limit, time.Duration(got))
			}
			time.Sleep(2 * time.Nanosecond)
			synctest.Wait()
			if got := time.Duration(rang.Load()); got != limit && limit > 0 {
				t.Errorf("a limit of %v rang after %v", limit, got)
			}
		}
	})
}

func TestStopDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, limit, stopped := new(sleeper), 20*time.Second, time.Hour
		timer, rang := ringing(s, limit)
		time.Sleep(limit / 2)
		s.sleep(stopped)
		time.Sleep(limit/2 - 3*time.Second)
		synctest.Wait()
		if got := rang.Load(); got != 0 {
			t.Fatalf("rang after %v, of which the process ran %v", time.Duration(got), time.Duration(got)-stopped)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if ran := time.Duration(rang.Load()) - stopped; ran < limit-2*time.Second || ran > limit {
			t.Errorf("rang after the process had run %v, want %v less two steps at most", ran, limit)
		}
		if timer.Stop() {
			t.Error("a Timer that had rung could be stopped")
		}
	})
}

func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer, rang := ringing(new(sleeper), time.Second)
		time.Sleep(999 * time.Millisecond)
		if !timer.Stop() || timer.Stop() {
			t.Error("the first Stop must report that it kept the Timer from ringing, and no other one")
		}
		time.Sleep(time.Minute)
		assert.Equal(t, rang.Load(), 0, "a stopped Timer rang")
	})
}

// TestMeter checks that the meter counts no more time than has passed, and at most two steps for one reading.
func TestMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		began := time.Unix(1e9, 0)
		m, now := meter{step: time.Second, last: began}, began
		gaps := rapid.SliceOf(rapid.Int64Range(-int64(time.Minute), int64(time.Hour))).Draw(t, "gaps")
		var want time.Duration
		for _, gap := range gaps {
			now = now.Add(time.Duration(gap))
			want += min(max(time.Duration(gap), 0), 2*time.Second)
			m.see(now)
		}
		assert.MustEqual(t, m.ran, want, "counted")
	})
}
