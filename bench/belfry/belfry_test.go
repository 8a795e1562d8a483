package belfry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// needNodes skips a test of real nodes unless BELFRY_TESTS lists real. The bench is a module of its own, whose tests of
// real nodes .ci/nightly names.
func needNodes(tb testing.TB) {
	tb.Helper()
	gated.Need(tb, gated.Real)
}

// stage is a running cluster with one caller of each kind.
type stage struct {
	t       *testing.T
	service subject.Service
	caller  subject.Caller
	single  subject.Caller
}

func newStage(t *testing.T) *stage {
	t.Helper()
	b := Subject(Config{Name: "Belfry", Binary: localtest.Build(t)})
	service, err := b.Start(t.Context(), t.TempDir())
	assert.NoError(t, err)
	t.Cleanup(func() {
		if err := service.Stop(); err != nil || service.PIDs() != nil {
			t.Errorf("stopped with %v, processes %v", err, service.PIDs())
		}
	})
	if n := len(service.PIDs()); n != nodes || b.Promise.Nodes != n {
		t.Fatalf("%d processes", n)
	}
	caller, err := service.Caller(t.Context())
	assert.NoError(t, err)
	return &stage{t, service, caller, newSingle(asService(service))}
}

func asService(s subject.Service) *service { return s.(*service) }

func (s *stage) must(err error) {
	s.t.Helper()
	assert.NoError(s.t, err)
}

func tasks(prefix string, n int, due time.Time) (tasks []subject.Task) {
	for i := range n {
		tasks = append(tasks, subject.Task{ID: fmt.Sprint(prefix, "-", i), Due: due, Payload: []byte(`"x"`)})
	}
	return tasks
}

// arrival is a task that a consumer or a receiver got, with the instant of its arrival.
type arrival struct {
	id string
	at time.Time
}

// consumed consumes until the wanted tasks have arrived, and fails the test on any other task.
func (s *stage) consumed(due time.Time, want ...string) {
	s.t.Helper()
	got := make(chan arrival, 100)
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- s.caller.(subject.Consumer).Consume(ctx, func(id string, at time.Time) { got <- arrival{id, at} })
	}()
	s.await(got, due, want)
	cancel()
	s.must(<-ended)
}

func (s *stage) await(got <-chan arrival, due time.Time, want []string) {
	s.t.Helper()
	var ids []string
	for range want {
		a := <-got
		ids = append(ids, a.id)
		if a.at.Before(due) {
			s.t.Errorf("%s came at %v, due at %v", a.id, a.at, due)
		}
	}
	slices.Sort(ids)
	slices.Sort(want)
	assert.EqualSlices(s.t, ids, want, "came")
}

func soon(d time.Duration) time.Time { return time.Now().Add(d).Truncate(time.Millisecond) }

// TestBelfryDoesAllThatIsAsked uses every ability that the workloads need of Belfry, on one cluster.
func TestBelfryDoesAllThatIsAsked(t *testing.T) {
	needNodes(t)
	s := newStage(t)
	ctx := t.Context()
	far := time.Now().Add(time.Hour)

	// Tasks are scheduled in each way and cancelled in each way. Only the remaining ones arrive.
	due := soon(2 * time.Second)
	s.must(s.caller.(subject.BatchScheduler).ScheduleBatch(ctx, tasks("batch", 5, due)))
	s.must(s.caller.Schedule(ctx, tasks("one", 1, due)[0]))
	s.must(s.single.Schedule(ctx, tasks("put", 1, due)[0]))
	s.must(s.caller.(subject.BatchCanceller).CancelBatch(ctx, []string{"batch-0", "batch-1", "batch-2"}))
	s.must(s.single.(subject.Toucher).Touch(ctx, "batch-3", due.Add(time.Hour)))
	s.must(s.single.(subject.Canceller).Cancel(ctx, "batch-3"))
	s.consumed(due, "batch-4", "one-0", "put-0")
	if err := s.caller.(subject.Canceller).Cancel(ctx, "one-0"); err == nil || !strings.Contains(err.Error(), "already_fired") {
		t.Errorf("a task that had arrived was cancelled: %v", err)
	}

	// A touched task is due at its new instant.
	s.must(s.caller.Schedule(ctx, tasks("touched", 1, far)[0]))
	due = soon(500 * time.Millisecond)
	s.must(s.caller.(subject.Toucher).Touch(ctx, "touched-0", due))
	s.consumed(due, "touched-0")

	// A log of so few tasks is too short for a snapshot.
	if all, fewest, err := s.service.(subject.Snapshotter).Snapshots(ctx); err != nil || all != 0 || fewest != 0 {
		t.Errorf("%d snapshots, %d, %v", all, fewest, err)
	}

	// A consumer of one queue gets no tasks of another.
	apart, err := s.service.(subject.Queuer).QueueCaller(ctx, "apart")
	s.must(err)
	s.must(apart.Schedule(ctx, tasks("apart", 1, time.Now())[0]))
	s.must(s.caller.Schedule(ctx, tasks("here", 1, time.Now())[0]))
	s.consumed(time.Time{}, "here-0")
	s.caller = apart
	s.consumed(time.Time{}, "apart-0")
}

func TestBelfryPushes(t *testing.T) {
	needNodes(t)
	s := newStage(t)
	got := make(chan arrival, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- arrival{r.Header.Get("Ce-Subject"), time.Now()}
	}))
	defer server.Close()
	s.must(s.service.(subject.Pusher).PushTo(server.URL))
	due := soon(time.Second)
	s.must(s.caller.Schedule(t.Context(), tasks("one", 1, due)[0]))
	s.must(s.single.Schedule(t.Context(), tasks("put", 1, due)[0]))
	s.await(got, due, []string{"one-0", "put-0"})
}

// TestBelfryIsBroken checks that acknowledged tasks survive the kill of all nodes. Then it kills one leader and stops
// another.
func TestBelfryIsBroken(t *testing.T) {
	needNodes(t)
	s := newStage(t)
	s.must(s.caller.(subject.BatchScheduler).ScheduleBatch(t.Context(), tasks("kept", 20, time.Now().Add(time.Second))))
	s.must(s.service.(subject.Killer).KillAll())
	if pids := s.service.PIDs(); pids != nil {
		t.Fatalf("processes %v live", pids)
	}
	s.must(s.service.(subject.Killer).Restart(t.Context()))
	var ids []string
	for _, task := range tasks("kept", 20, time.Time{}) {
		ids = append(ids, task.ID)
	}
	s.consumed(time.Time{}, ids...)
	for _, strike := range []func() error{
		s.service.(subject.LeaderKiller).KillLeader, s.service.(subject.LeaderStopper).StopLeader,
	} {
		s.must(strike())
		assert.Equal(t, len(s.service.PIDs()), nodes-1, "nodes live")
		s.must(s.caller.Schedule(t.Context(), tasks("after", 1, time.Now())[0]))
		s.consumed(time.Time{}, "after-0")
		s.must(s.service.(subject.Killer).Restart(t.Context()))
		s.must(asService(s.service).awaitLeaders(t.Context()))
	}
}
