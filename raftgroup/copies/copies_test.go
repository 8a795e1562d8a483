package copies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func never() error { return nil }

// send reads a copy of the given size to its end, and returns the time that it took.
func send(t *testing.T, s Source, node string, size int64, limited bool) time.Duration {
	t.Helper()
	began := time.Now()
	c := s.Begin(t.Context(), node, size, limited, never)
	defer c.End()
	got, err := io.ReadAll(c.Reader(bytes.NewReader(make([]byte, size))))
	if err != nil || int64(len(got)) != size {
		t.Errorf("%d of %d bytes, %v", len(got), size, err)
	}
	return time.Since(began)
}

// TestCopiesShareTheLimit checks that two limited copies together keep to the limit, and that a copy to a voter does
// not wait.
func TestCopiesShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m := NewMeter(256 << 10)
		took := make(chan time.Duration, 2)
		for _, node := range []string{"b", "c"} {
			go func() {
				took <- send(t, m.Of(1), node, size, true)
			}()
		}
		synctest.Wait()
		assert.Equal(t, send(t, m.Of(2), "d", size, false), 0, "a copy to a voter took")
		<-time.After(5 * time.Second)
		now := m.UnderWay()
		if len(now) != 2 || now[0].Node != "b" || now[0].Group != 1 || now[0].Size != size {
			t.Fatalf("under way: %+v", now)
		}
		if pace := (now[0].Sent + now[1].Sent) / 5; pace < 240<<10 || pace > 280<<10 || now[1].Sent == 0 {
			t.Errorf("at 256 KiB a second: %+v", now)
		}
		<-took
		if last := <-took; last < 7*time.Second || last > 9*time.Second {
			t.Errorf("2 MiB at 256 KiB a second took %v", last)
		}
		if len(m.UnderWay()) != 0 || m.Sent(true) != 2*size || m.Sent(false) != size {
			t.Errorf("%d bytes with a limit, %d without, under way: %v", m.Sent(true), m.Sent(false), m.UnderWay())
		}
	})
}

// TestNoLimit checks that a Meter without a limit, and no Meter, delay no copy.
func TestNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]Source{"no limit": NewMeter(0).Of(1), "zero": {}} {
			assert.Equal(t, send(t, s, "b", 10<<20, true), 0, "%s: it took", name)
		}
	})
}

// TestCopyEndsEarly checks that a copy fails within a moment when it has become useless or the process stops.
func TestCopyEndsEarly(t *testing.T) {
	useless := errors.New("another node leads")
	for name, want := range map[string]error{"stale": useless, "stopped": context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var stale atomic.Bool
			ended := time.AfterFunc(3*time.Second, func() {
				if want == useless {
					stale.Store(true)
				} else {
					cancel()
				}
			})
			defer ended.Stop()
			defer cancel()
			m, began := NewMeter(MinRate), time.Now()
			c := m.Of(1).Begin(ctx, "b", 1<<30, true, func() error {
				if stale.Load() {
					return useless
				}
				return nil
			})
			defer c.End()
			_, err := io.Copy(io.Discard, c.Reader(bytes.NewReader(make([]byte, 8<<20))))
			if took := time.Since(began); !errors.Is(err, want) || took > 3200*time.Millisecond {
				t.Errorf("%s: after %v: %v", name, took, err)
			}
		})
	}
}

// TestPaceSharesTheLimit checks that copies on another way share the limit with a snapshot, although each call has too
// little time for all of its bytes.
func TestPaceSharesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		m, began := NewMeter(256<<10), time.Now()
		took := make(chan time.Duration, 1)
		go func() { took <- send(t, m.Of(1), "b", size, true) }()
		calls := 0
		for left := size; left > 0; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			var err error
			left, err = m.Pace(ctx, left)
			assert.Equal(t, left == 0, err == nil, "%d bytes are left: %v", left, err)
			cancel()
		}
		<-took
		if last := time.Since(began); last < 7*time.Second || last > 9*time.Second || calls < 12 {
			t.Errorf("2 MiB at 256 KiB a second took %v and %d calls", last, calls)
		}
		if m.Paced() != size || m.Sent(true) != size {
			t.Errorf("%d bytes paced, %d sent", m.Paced(), m.Sent(true))
		}
	})
}

// TestPaceWithoutLimit checks that a Meter without a limit counts the bytes and delays none.
func TestPaceWithoutLimit(t *testing.T) {
	m := NewMeter(0)
	if left, err := m.Pace(t.Context(), 1<<20); left != 0 || err != nil || m.Paced() != 1<<20 {
		t.Errorf("%d bytes left, %v, %d paced", left, err, m.Paced())
	}
}
