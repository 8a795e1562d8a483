package workload

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/assert"
)

// sizes are so small that every figure can be computed in advance.
func sizes() Sizes {
	s := Quick()
	s.Callers, s.ManyCallers, s.Batch, s.Consumers = 4, 8, 10, 2
	s.ScheduleFor, s.ScheduleTasks = time.Second, 100_000
	s.SteadyRate, s.SteadyFor = 100, 2*time.Second
	s.LatenessTasks, s.LatenessOver = 100, time.Second
	s.WebhookTasks, s.WebhookOver = 50, 100*time.Millisecond
	s.BadTasks, s.BadFirst, s.HealthyTasks, s.HealthyOver = 20, time.Millisecond, 50, 100*time.Millisecond
	s.BurstTasks, s.CancelTasks = 200, 200
	s.TouchIDs, s.TouchDelay, s.TouchFor = 200, time.Second, 4*time.Second
	s.RepeatSchedules, s.RepeatEvery, s.RepeatFor = 200, time.Second, 2*time.Second
	s.RestartTasks = 100
	s.FailoverRate, s.FailoverWrites, s.FailoverFor = 100, 20, 5030*time.Millisecond
	s.Pending, s.Probe = []int{100, 200}, 50
	s.TailsRate, s.TailsPending, s.TailsFor = 100, 100, 2*time.Second
	s.TailsRewrite, s.TailsCascade, s.TailsConsumers = 1<<20, 50, 3
	return s
}

func named(t *testing.T, name string) Workload {
	t.Helper()
	all := All(sizes())
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		t.Fatalf("there is no workload %q", name)
	}
	return all[i]
}

// measure runs a workload with a fake in simulated time.
func measure(t *testing.T, name string, f *fake) Measured {
	t.Helper()
	var m Measured
	w := named(t, name)
	synctest.Test(t, func(t *testing.T) {
		m = w.Measure(t.Context(), f.subject(), sizes(), t.TempDir(), func(s string) { t.Log(s) })
	})
	return m
}

// expect compares the wanted figures. Other figures may have any value.
func expect(t *testing.T, m Measured, want map[string]float64) {
	t.Helper()
	if m.Failed != "" || m.Cannot != "" {
		t.Fatalf("failed %q, cannot %q", m.Failed, m.Cannot)
	}
	for key, value := range want {
		if got, ok := m.Values[key]; !ok || math.Abs(got-value) > 1e-6*math.Abs(value) {
			t.Errorf("%s is %v, want %v; all: %v", key, got, value, m.Values)
		}
	}
}

// ordinal returns the number of a task in its set.
func ordinal(task subject.Task) int {
	i, ok := ids(task.ID[:len(task.ID)-idDigits]).index(task.ID)
	if !ok {
		panic(task.ID)
	}
	return i
}

func TestScheduleIsAClosedLoop(t *testing.T) {
	latencies := map[string]float64{"p50": 2, "p99": 2, "max": 2}
	for name, rate := range map[string]float64{
		"schedule": 4 * 500, "schedule-many": 8 * 500, "schedule-batch": 4 * 500 * 10,
	} {
		m := measure(t, name, &fake{latency: 2 * time.Millisecond})
		expect(t, m, latencies)
		expect(t, m, map[string]float64{"rate": rate})
		assert.Equal(t, m.Usage.Elapsed, time.Second, "%s: measured for", name)
	}
}

func TestChangeIsAClosedLoop(t *testing.T) {
	expect(t, measure(t, "cancel", &fake{latency: time.Millisecond}), map[string]float64{"rate": 4000, "max": 1})
	expect(t, measure(t, "touch-calls", &fake{latency: time.Millisecond}), map[string]float64{"rate": 4000, "max": 1})
	expect(t, measure(t, "cancel-batch", &fake{latency: time.Millisecond}), map[string]float64{"rate": 40_000, "max": 1})
}

// TestLatenessIsThatOfTheService has one task in a hundred 7 ms late, and all others 3 ms.
func TestLatenessIsThatOfTheService(t *testing.T) {
	f := &fake{latency: time.Millisecond, late: func(task subject.Task) time.Duration {
		if ordinal(task) == 42 {
			return 7 * time.Millisecond
		}
		return 3 * time.Millisecond
	}}
	expect(t, measure(t, "lateness", f), map[string]float64{
		"p50": 3, "p99": 3, "p99.9": 7, "max": 7, "early": 0, "lost": 0, "repeats": 0,
	})
}

func TestEarlyLostAndRepeatedAreCounted(t *testing.T) {
	every := func(n int) func(subject.Task) bool {
		return func(task subject.Task) bool { return ordinal(task)%n == 0 }
	}
	f := &fake{
		loses: every(50), repeats: every(20),
		late: func(task subject.Task) time.Duration {
			if ordinal(task)%10 == 3 {
				return -time.Millisecond
			}
			return 0
		},
	}
	// Of 100 tasks, 0 and 50 are lost; 0, 20, 40, 60 and 80 would be repeated.
	expect(t, measure(t, "lateness", f), map[string]float64{"early": 10, "lost": 2, "repeats": 4, "p50": 0})
}

// TestWaitingIsNotHidden stalls the service for half a second. The load does not slow down meanwhile: the latency of a
// delayed schedule counts from its planned instant.
func TestWaitingIsNotHidden(t *testing.T) {
	var from time.Time
	f := &fake{latency: time.Millisecond}
	f.stalls = func(at time.Time) (time.Time, bool) {
		if from.IsZero() {
			from = at.Add(2 * time.Second) // the load begins a second after this first call
		}
		end := from.Add(500 * time.Millisecond)
		return end, !at.Before(from) && at.Before(end)
	}
	expect(t, measure(t, "steady", f), map[string]float64{
		"ack_p50": 1, "ack_p99": 479, "ack_max": 499, // 100 a second: 10 ms less for each later call
		"max": 0, "lost": 0,
	})
}

func TestBurst(t *testing.T) {
	f := &fake{late: func(task subject.Task) time.Duration {
		return time.Duration(ordinal(task)+1) * 100 * time.Microsecond // one after the other
	}}
	expect(t, measure(t, "burst", f), map[string]float64{"drained": 20, "rate": 10_000, "p50": 10, "max": 20, "lost": 0})
	f = &fake{loses: func(task subject.Task) bool { return ordinal(task) == 7 }}
	m := measure(t, "burst", f)
	expect(t, m, map[string]float64{"lost": 1})
	if _, ok := m.Values["drained"]; ok {
		t.Error("the burst counts as drained, though a task is lost")
	}
}

// TestTouch expects 2 of 200 heartbeats to fall silent and to arrive 4 ms late. The others do not arrive.
func TestTouch(t *testing.T) {
	f := &fake{latency: time.Millisecond, late: func(subject.Task) time.Duration { return 4 * time.Millisecond }}
	expect(t, measure(t, "touch", f), map[string]float64{
		"rate": 4000, "false": 0, "silent_p50": 4, "silent_max": 4, "early": 0, "lost": 0,
	})
	// With calls of a second, no task is touched in time. Each arrives a second after its schedule.
	m := measure(t, "touch", &fake{latency: time.Second})
	if m.Failed == "" && m.Values["false"] < 100 {
		t.Errorf("failed %q, values %v", m.Failed, m.Values)
	}
}

func TestRestart(t *testing.T) {
	f := &fake{outage: 300 * time.Millisecond}
	expect(t, measure(t, "restart", f), map[string]float64{"first": 300, "last": 300, "early": 0, "lost": 0, "repeats": 0})
	f = &fake{outage: 300 * time.Millisecond, loses: func(task subject.Task) bool { return ordinal(task)%50 == 0 }}
	expect(t, measure(t, "restart", f), map[string]float64{"lost": 2})
}

// TestFailover loses the leader at 1509 ms, for 700 ms. The next task is due at 1510 ms. The first task that the leader
// cannot have handed out is due at 1560 ms. The first write is planned for 1550 ms, repeated every 10 ms, and takes 1
// ms.
func TestFailover(t *testing.T) {
	f := &fake{latency: time.Millisecond, outage: 700 * time.Millisecond}
	m := measure(t, "failover", f)
	expect(t, m, map[string]float64{
		"late": 699, "fires": 649 + 50, "writes": 660 + 1, "early": 0, "lost": 0, "repeats": 0,
	})
}

func TestWhatASubjectCannotDo(t *testing.T) {
	for name, want := range map[string]string{
		"schedule-batch": "cannot schedule by batches", "lateness": "cannot be consumed from",
		"lateness-webhook": "cannot send webhooks", "burst": "cannot be consumed from", "cancel": "cannot cancel",
		"cancel-batch": "cannot cancel by batches", "touch": "cannot be consumed from", "touch-calls": "cannot touch",
		"restart": "cannot be killed and started again", "failover": "cannot lose its leader",
		"handover": "cannot let its leader stop", "growth": "cannot be consumed from",
		"growth-queues": "cannot keep queues apart", "steady": "cannot be consumed from",
		"tails": "cannot replace tasks by batches", "neighbours": "cannot keep tenants apart",
		"repeating": "cannot repeat tasks",
	} {
		f := &fake{plain: true}
		m := measure(t, name, f)
		if m.Cannot != want || m.Failed != "" || m.Values != nil {
			t.Errorf("%s: %+v", name, m)
		}
		if f.calls.Load() > 0 {
			t.Errorf("%s: %d calls before the missing ability was found", name, f.calls.Load())
		}
	}
	expect(t, measure(t, "schedule", &fake{plain: true, latency: time.Millisecond}), map[string]float64{"rate": 4000})
}

// TestWebhooks uses a real connection, so the lateness is real.
func TestWebhooks(t *testing.T) {
	for _, name := range []string{"lateness-webhook", "bad-path-webhook", "burst-webhook"} {
		f := &fake{latency: time.Millisecond}
		m := named(t, name).Measure(t.Context(), f.subject(), sizes(), t.TempDir(), func(string) {})
		expect(t, m, map[string]float64{"early": 0, "lost": 0, "repeats": 0})
		if m.Values["max"] <= 0 {
			t.Errorf("%s: late %v", name, m.Values)
		}
	}
}

// broken is a subject whose start or stop fails.
type broken struct {
	*fake
	start, stop error
}

func (b *broken) subject() subject.Subject {
	return subject.Subject{Name: "broken", Start: func(ctx context.Context, dir string) (subject.Service, error) {
		service, err := b.fake.start(ctx, dir)
		return &brokenService{service, b}, errors.Join(err, b.start)
	}}
}

type brokenService struct {
	subject.Service
	b *broken
}

func (s *brokenService) Stop() error { return errors.Join(s.Service.Stop(), s.b.stop) }

func TestFailuresAreReported(t *testing.T) {
	down := &fake{}
	down.down.Store(1<<63 - 1)
	for want, s := range map[string]subject.Subject{
		"connection refused":    down.subject(),
		"starting: no port":     (&broken{fake: &fake{}, start: errors.New("no port")}).subject(),
		"stopping: still there": (&broken{fake: &fake{}, stop: errors.New("still there")}).subject(),
	} {
		synctest.Test(t, func(t *testing.T) {
			m := named(t, "schedule").Measure(t.Context(), s, sizes(), t.TempDir(), func(string) {})
			if !strings.Contains(m.Failed, want) || m.Values != nil {
				t.Errorf("failed %q, want %q; values %v", m.Failed, want, m.Values)
			}
		})
	}
}

// TestInterrupt checks that an interrupted run reports its cause and closes its callers.
func TestInterrupt(t *testing.T) {
	f := &fake{latency: time.Millisecond}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("time is up"))
		defer cancel()
		m := named(t, "schedule").Measure(ctx, f.subject(), sizes(), t.TempDir(), func(string) {})
		assert.Contains(t, m.Failed, "time is up", "failed")
	})
	assert.Equal(t, f.ended.Load(), 4, "of 4 callers were closed")
}

func TestGrowthMeasuresAtEachSize(t *testing.T) {
	m := measure(t, "growth", &fake{latency: time.Millisecond})
	expect(t, m, map[string]float64{"rate_100": 50. / 0.013, "rate_200": 50. / 0.013, "late_100": 0})
	m = measure(t, "growth-queues", &fake{latency: time.Millisecond})
	expect(t, m, map[string]float64{"rate_1": 50. / 0.013, "rate_10": 50. / 0.005})
}

func TestMemoryAndIdleNeedProcesses(t *testing.T) {
	for _, name := range []string{"memory", "idle"} {
		if m := measure(t, name, &fake{}); !strings.Contains(m.Failed, "no process") {
			t.Errorf("%s: %+v", name, m)
		}
		m := measure(t, name, &fake{pids: []int{os.Getpid()}})
		if rss := m.Values["rss"]; rss < 1 || rss > 10_000 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// TestMemoryWhileSnapshotsAreWritten checks the highest memory and the number of snapshots while some tasks are
// replaced.
func TestMemoryWhileSnapshotsAreWritten(t *testing.T) {
	s := sizes()
	s.MemoryMany = 8000
	measured := func(f *fake) (m Measured) {
		synctest.Test(t, func(t *testing.T) {
			m = memoryMany(s).Measure(t.Context(), f.subject(), s, t.TempDir(), func(s string) { t.Log(s) })
		})
		return m
	}
	f := &fake{latency: 10 * time.Millisecond, pids: []int{os.Getpid()}}
	m := measured(f)
	if calls, want := f.calls.Load(), int64(13*800/s.Batch); m.Failed != "" || calls != want || len(f.tasks) != 8000 {
		t.Errorf("%d calls, want %d; %d tasks: %+v", calls, want, len(f.tasks), m)
	}
	if m.Values["rss_peak"] < m.Values["rss_all"] || m.Values["snapshots"] != 7 {
		t.Errorf("%+v", m)
	}
	if m := measured(&fake{plain: true, pids: []int{os.Getpid()}}); m.Cannot == "" {
		t.Errorf("a service that cannot replace tasks: %+v", m)
	}
	if m := measured(&fake{latency: time.Millisecond}); !strings.Contains(m.Failed, "no process") {
		t.Errorf("a service without processes: %+v", m)
	}
}

// TestFiguresAreTold checks that a workload returns only figures that it declares.
func TestFiguresAreTold(t *testing.T) {
	for _, w := range All(sizes()) {
		if strings.Contains(w.Name, "webhook") || w.Name == "handover" || w.Name == "neighbours" {
			continue // real time, or a test of its own
		}
		m := measure(t, w.Name, &fake{latency: time.Millisecond, pids: []int{os.Getpid()}})
		if m.Failed != "" || m.Cannot != "" {
			t.Errorf("%s: %+v", w.Name, m)
		}
		if len(m.Values) != len(w.Figures) && w.Name != "growth-queues" && w.Name != "growth" {
			t.Errorf("%s gives %d figures of %d: %v", w.Name, len(m.Values), len(w.Figures), m.Values)
		}
		for key := range m.Values {
			if !slices.ContainsFunc(w.Figures, func(k Figure) bool { return k.Key == key }) {
				t.Errorf("%s gives %q, which it does not declare", w.Name, key)
			}
		}
	}
}
