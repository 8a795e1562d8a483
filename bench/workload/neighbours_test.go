package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
)

// crowded is a fake that keeps tenants apart. A storm makes its calls and its tasks slow.
type crowded struct {
	*fake
	during  time.Duration // latency of calls during a storm
	storms  atomic.Int64
	settled time.Duration // latency without one
	ends    error         // of the storms
}

func (c *crowded) subject() subject.Subject {
	return subject.Subject{Name: "crowded", Start: func(ctx context.Context, dir string) (subject.Service, error) {
		_, err := c.fake.start(ctx, dir)
		c.latency = c.settled
		return c, err
	}}
}

func (c *crowded) TenantCaller(context.Context, string, string) (subject.Caller, error) {
	return &fakeCaller{c.fake}, nil
}

func (c *crowded) Storm(_ context.Context, tenant string, s subject.Storm) (subject.Storming, error) {
	if tenant != stormTenant || s.Kind == subject.StormDue && time.Until(s.At) < stormLead {
		return nil, errors.New("not as it was asked for")
	}
	c.storms.Add(1)
	c.latency = c.during
	return storming{c}, nil
}

type storming struct{ *crowded }

func (s storming) End() (int, error) {
	s.latency = s.settled
	return 7, s.ends
}

func noReceiver(context.Context, got) (string, func() error, error) {
	return "", func() error { return nil }, nil
}

func neighbourSizes() Sizes {
	s := sizes()
	s.NeighbourRate, s.NeighbourFor, s.NeighbourTurns = 100, 2*time.Second, 3
	s.StormConnections, s.StormBatch, s.StormDue, s.StormSilent = 2, 10, 100, 10
	s.Patience = 5 * time.Second
	return s
}

// TestNeighbourIsMeasuredByTurns has calls of 2 ms alone, and of 6 ms beside each storm.
func TestNeighbourIsMeasuredByTurns(t *testing.T) {
	w := neighbours(neighbourSizes(), noReceiver)
	synctest.Test(t, func(t *testing.T) {
		c := &crowded{fake: &fake{}, settled: 2 * time.Millisecond, during: 6 * time.Millisecond}
		m := w.Measure(t.Context(), c.subject(), neighbourSizes(), t.TempDir(), func(s string) { t.Log(s) })
		expect(t, m, map[string]float64{
			"batches_call_alone": 2, "batches_call": 6, "batches_call_ratio": 3, "batches_kept": 100,
			"calls_call_ratio": 3, "due_call_ratio": 3, "silent_call": 6, "silent_late": 0,
		})
		if n := c.storms.Load(); n != 4*3 || len(m.Values) != len(w.Figures) {
			t.Errorf("%d storms, %d figures of %d", n, len(m.Values), len(w.Figures))
		}
	})
}

// TestTasksTooLateAreNotKept has a service that answers a storm's neighbour after more than a second.
func TestTasksTooLateAreNotKept(t *testing.T) {
	s := neighbourSizes()
	s.NeighbourStorms = []string{"calls"}
	w := neighbours(s, noReceiver)
	synctest.Test(t, func(t *testing.T) {
		c := &crowded{fake: &fake{}, settled: time.Millisecond, during: inTime + time.Millisecond}
		m := w.Measure(t.Context(), c.subject(), s, t.TempDir(), func(s string) { t.Log(s) })
		expect(t, m, map[string]float64{"calls_kept": 0})
		c.ends = errors.New("it broke")
		if m := w.Measure(t.Context(), c.subject(), s, t.TempDir(), func(string) {}); m.Failed == "" {
			t.Error("a storm that broke is not told")
		}
	})
}
