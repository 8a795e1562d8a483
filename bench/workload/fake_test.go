package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// fake is an in-memory service with exact faults. It has every ability unless plain is set.
type fake struct {
	latency time.Duration                                    // of each call
	late    func(task subject.Task) time.Duration            // how late a task arrives; nil: never late
	loses   func(task subject.Task) bool                     // nil: none
	repeats func(task subject.Task) bool                     // nil: none
	stalls  func(since time.Time) (until time.Time, ok bool) // calls in this time wait until its end; nil: none
	outage  time.Duration                                    // downtime after a loss of the leader
	pids    []int                                            // its processes
	forgets int                                              // rules that it does not count
	plain   bool                                             // its callers can only schedule

	mu    sync.Mutex
	tasks map[string]*held
	rules map[string]subject.Schedule
	due   chan subject.Task
	url   string

	replaced time.Time // when an existing task was last replaced

	down  atomic.Int64 // unix ns until which the service is down
	calls atomic.Int64
	ended atomic.Int64 // number of closed callers
}

// held is a task and its timer.
type held struct {
	subject.Task
	timer *time.Timer
}

func (f *fake) subject() subject.Subject { return subject.Subject{Name: "fake", Start: f.start} }

func (f *fake) start(context.Context, string) (subject.Service, error) {
	f.tasks, f.due = map[string]*held{}, make(chan subject.Task, 1<<20)
	f.rules = map[string]subject.Schedule{}
	if f.plain {
		return &plainService{f}, nil
	}
	return f, nil
}

func (f *fake) Caller(context.Context) (subject.Caller, error) { return &fakeCaller{f}, nil }
func (f *fake) QueueCaller(context.Context, string) (subject.Caller, error) {
	return &fakeCaller{f}, nil
}
func (f *fake) PIDs() []int             { return f.pids }
func (f *fake) PushTo(url string) error { f.url = url; return nil }

func (f *fake) Stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tasks {
		t.timer.Stop()
	}
	return nil
}

// KillAll takes the service down until Restart.
func (f *fake) KillAll() error {
	f.down.Store(1<<63 - 1)
	return nil
}

func (f *fake) Restart(context.Context) error {
	f.down.Store(time.Now().Add(f.outage).UnixNano())
	return nil
}

func (f *fake) KillLeader() error { return f.Restart(context.Background()) }
func (f *fake) StopLeader() error { return f.Restart(context.Background()) }

func (f *fake) AwaitReady(ctx context.Context) error {
	return loop.SleepUntil(ctx, time.Unix(0, f.down.Load()))
}

// Snapshots reports a full set of snapshots five seconds after the last replacement.
func (f *fake) Snapshots(context.Context) (all, fewest int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replaced.IsZero() || time.Since(f.replaced) < 5*time.Second {
		return 2, 0, nil
	}
	return 7, 1, nil
}

var errDown = errors.New("connection refused")

// call counts a call and waits for its latency.
func (f *fake) call(ctx context.Context) error {
	f.calls.Add(1)
	if time.Now().UnixNano() < f.down.Load() {
		return errDown
	}
	until := time.Now().Add(f.latency)
	if f.stalls != nil {
		if end, ok := f.stalls(time.Now()); ok {
			until = end
		}
	}
	return loop.SleepUntil(ctx, until)
}

func (f *fake) put(task subject.Task) {
	late := time.Duration(0)
	if f.late != nil {
		late = f.late(task)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tasks[task.ID]; t != nil {
		f.replaced = time.Now()
		t.timer.Stop()
	}
	t := &held{Task: task}
	t.timer = time.AfterFunc(time.Until(task.Due.Add(late)), func() { f.fire(t) })
	f.tasks[task.ID] = t
}

func (f *fake) fire(t *held) {
	down := f.down.Load() // read once: Restart changes it concurrently
	if up := time.Unix(0, down); time.Now().Before(up) {
		if down == 1<<63-1 {
			up = time.Now().Add(time.Millisecond)
		}
		f.mu.Lock() // put holds it until the timer is set
		defer f.mu.Unlock()
		t.timer.Reset(time.Until(up))
		return
	}
	f.putNext(t.ID)
	if f.loses != nil && f.loses(t.Task) {
		return
	}
	f.due <- t.Task
	if f.repeats != nil && f.repeats(t.Task) {
		f.due <- t.Task
	}
	if f.url != "" {
		go f.push()
	}
}

// putNext puts the occurrence after the one with this id; none if the id is an ordinary task's.
func (f *fake) putNext(id string) {
	schedule, digits, repeats := strings.Cut(id, "@")
	if !repeats {
		return
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	rule := f.rules[schedule]
	f.mu.Unlock()
	f.put(subject.Task{ID: fmt.Sprint(schedule, "@", n+1), Due: rule.First.Add(time.Duration(n) * rule.Every)})
}

// Schedules returns the number of rules without those that the fake has forgotten.
func (f *fake) Schedules(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rules) - f.forgets, nil
}

func (f *fake) push() {
	task := <-f.due
	req, err := http.NewRequest(http.MethodPost, f.url, strings.NewReader(string(task.Payload)))
	if err != nil {
		panic(err)
	}
	req.Header.Set("ce-subject", task.ID)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}

func (f *fake) take(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tasks[id]
	if t == nil || !t.timer.Stop() {
		return errors.New("there is no task " + id)
	}
	delete(f.tasks, id)
	return nil
}

type fakeCaller struct{ *fake }

func (c *fakeCaller) Close() error {
	c.ended.Add(1)
	return nil
}

func (c *fakeCaller) Schedule(ctx context.Context, task subject.Task) error {
	return c.ScheduleBatch(ctx, []subject.Task{task})
}

func (c *fakeCaller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	if err := c.call(ctx); err != nil {
		return err
	}
	for _, task := range tasks {
		c.put(task)
	}
	return nil
}

func (c *fakeCaller) Replace(ctx context.Context, tasks []subject.Task) error {
	return c.ScheduleBatch(ctx, tasks)
}

func (c *fakeCaller) Repeat(ctx context.Context, s subject.Schedule) error {
	if err := c.call(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.rules[s.ID] = s
	c.mu.Unlock()
	c.putNext(s.ID + "@0")
	return nil
}

func (c *fakeCaller) Cancel(ctx context.Context, id string) error {
	return c.CancelBatch(ctx, []string{id})
}

func (c *fakeCaller) CancelBatch(ctx context.Context, ids []string) error {
	if err := c.call(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.take(id); err != nil {
			return err
		}
	}
	return nil
}

func (c *fakeCaller) Touch(ctx context.Context, id string, due time.Time) error {
	if err := c.call(ctx); err != nil {
		return err
	}
	if err := c.take(id); err != nil {
		return err
	}
	c.put(subject.Task{ID: id, Due: due})
	return nil
}

func (c *fakeCaller) Consume(ctx context.Context, got func(string, time.Time)) error {
	for {
		if time.Now().UnixNano() < c.down.Load() {
			return errDown
		}
		select {
		case <-ctx.Done():
			return nil
		case task := <-c.due:
			got(task.ID, time.Now())
		}
	}
}

// plainService is a fake whose callers can only schedule.
type plainService struct{ f *fake }

func (s *plainService) Caller(context.Context) (subject.Caller, error) {
	return plainCaller{&fakeCaller{s.f}}, nil
}
func (s *plainService) PIDs() []int { return nil }
func (s *plainService) Stop() error { return s.f.Stop() }

type plainCaller struct{ subject.Caller }
