package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/loop"
)

// Workload is a load to put on a subject.
type Workload struct {
	Name    string   `json:"name"`  // as flags name it, such as "schedule"
	Title   string   `json:"title"` // as tables show it
	Figures []Figure `json:"figures"`

	needs []need // checked before run, which may rely on them
	run   func(ctx context.Context, r *run) error
}

// All returns the workloads with these sizes, in the order of the report.
func All(s Sizes) []Workload {
	pulled := firing{tasks: s.LatenessTasks, over: s.LatenessOver}
	pushed := firing{tasks: s.WebhookTasks, over: s.WebhookOver, push: true}
	return []Workload{
		schedule("schedule", s.Callers), schedule("schedule-many", s.ManyCallers), scheduleBatch(s),
		steady(s), tails(s), neighbours(s, listen),
		lateness("lateness", fmt.Sprintf("pulled, %d tasks due within %v", pulled.tasks, pulled.over), pulled),
		lateness("lateness-webhook", fmt.Sprintf("webhooks, %.0f a second", perSecond(pushed.tasks, pushed.over)), pushed),
		badPathWebhook(s),
		burst("burst", "pulled", firing{tasks: s.BurstTasks}),
		burst("burst-webhook", "webhooks", firing{tasks: s.BurstTasks, push: true}),
		cancel(s), cancelBatch(s), touchCalls(s), touch(s),
		memory("memory", s.MemoryTasks, s.Payload), memory("memory-small", s.MemoryTasks, s.SmallPayload),
		memoryMany(s), repeating(s), idle(s), restart(s),
		breakdown{"failover", "leader killed, pulled", false, toLoseLeader, killLeader}.workload(s),
		breakdown{"failover-webhook", "leader killed, webhooks", true, toLoseLeader, killLeader}.workload(s),
		breakdown{"handover", "leader stopped in order, webhooks", true, toStopLeader, stopLeader}.workload(s),
		growth("growth", "pending tasks", "pending", s.Pending, playGrowth, toBeConsumed),
		growth("growth-queues", "queues", "queues", s.Queues, playGrowthQueues, toSeparate, toBeConsumed),
	}
}

// startLimit is the longest time for a service to start.
const startLimit = 2 * time.Minute

// Measure starts the subject in an empty folder, runs the workload and stops the subject. It reports progress to say.
func (w Workload) Measure(
	ctx context.Context, s subject.Subject, sizes Sizes, dir string, say func(string),
) Measured {
	m := Measured{Workload: w.Name, Subject: s.Name}
	r := &run{sizes: sizes, values: map[string]float64{}}
	var mu sync.Mutex // guards m.Said: consumers call say too
	r.say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		m.Said = append(m.Said, fmt.Sprintf(format, args...))
		say(m.Said[len(m.Said)-1])
	}
	err := w.measure(ctx, s, r, dir)
	var cannot cannotError
	switch {
	case errors.As(err, &cannot):
		m.Cannot = cannot.Error()
	case err != nil:
		m.Failed = err.Error()
	default:
		m.Values, m.Usage = r.values, r.usage
	}
	return m
}

func (w Workload) measure(ctx context.Context, s subject.Subject, r *run, dir string) (err error) {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if r.service, err = s.Start(starting, dir); err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	defer func() {
		r.closeCallers()
		if stopped := r.service.Stop(); stopped != nil {
			err = errors.Join(err, fmt.Errorf("stopping: %w", stopped))
		}
	}()
	if err = w.check(ctx, r.service); err == nil {
		err = w.run(ctx, r)
	}
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return err
}

// cannotError names an ability that a subject lacks.
type cannotError string

func (e cannotError) Error() string { return string(e) }

// check returns an error if neither the service nor its callers have an ability that the workload needs.
func (w Workload) check(ctx context.Context, service subject.Service) error {
	if len(w.needs) == 0 {
		return nil
	}
	caller, err := service.Caller(ctx)
	if err != nil {
		return fmt.Errorf("a caller: %w", err)
	}
	for _, need := range w.needs {
		if !need.isMetBy(service) && !need.isMetBy(caller) {
			err = cannotError("cannot " + need.verb)
			break
		}
	}
	return errors.Join(err, caller.Close())
}

// need is an ability of a service or of its callers.
type need struct {
	verb    string // after "to" or "cannot"
	isMetBy func(provider any) bool
}

func to[T any](verb string) need {
	return need{verb, func(provider any) bool { _, ok := provider.(T); return ok }}
}

// The abilities that workloads need.
var (
	toSchedule    = to[subject.BatchScheduler]("schedule by batches")
	toCancel      = to[subject.Canceller]("cancel")
	toCancelMany  = to[subject.BatchCanceller]("cancel by batches")
	toReplace     = to[subject.Replacer]("replace tasks by batches")
	toTouch       = to[subject.Toucher]("touch")
	toRepeat      = to[subject.Repeater]("repeat tasks")
	toBeConsumed  = to[subject.Consumer]("be consumed from")
	toPush        = to[subject.Pusher]("send webhooks")
	toSeparate    = to[subject.Queuer]("keep queues apart")
	toKeepTenants = to[subject.Tenants]("keep tenants apart")
	toBeKilled    = to[subject.Killer]("be killed and started again")
	toLoseLeader  = to[subject.LeaderKiller]("lose its leader")
	toStopLeader  = to[subject.LeaderStopper]("let its leader stop")
	toTellReady   = to[subject.ReadyAwaiter]("report that it is ready")
	toSnapshot    = to[subject.Snapshotter]("tell how many snapshots it has written")
	toCount       = to[subject.ScheduleCounter]("count its schedules")
)

// toDeliver returns the ability to send webhooks, or to be consumed from.
func toDeliver(push bool) need {
	if push {
		return toPush
	}
	return toBeConsumed
}

// run is one workload in progress.
type run struct {
	service subject.Service
	sizes   Sizes
	say     func(format string, args ...any)
	opened  []subject.Caller // callers to close before the service stops
	making  sync.Mutex       // held while the service makes a caller

	values map[string]float64
	usage  Usage
}

// callers makes n callers that live as long as the run.
func (r *run) callers(ctx context.Context, n int) ([]subject.Caller, error) {
	return r.open(n, func(int) (subject.Caller, error) { return r.caller(ctx) })
}

// caller makes a caller. Consumers and writers that begin anew call it at the same time, but a service makes one caller
// at a time.
func (r *run) caller(ctx context.Context) (subject.Caller, error) {
	r.making.Lock()
	defer r.making.Unlock()
	return r.service.Caller(ctx)
}

func (r *run) open(n int, open func(i int) (subject.Caller, error)) ([]subject.Caller, error) {
	callers := make([]subject.Caller, n)
	for i := range callers {
		caller, err := open(i)
		if err != nil {
			return nil, fmt.Errorf("caller %d of %d: %w", i+1, n, err)
		}
		callers[i] = caller
		r.opened = append(r.opened, caller)
	}
	return callers, nil
}

// closeCallers closes all callers. Failures are only reported, because the figures are complete by then.
func (r *run) closeCallers() {
	failed := 0
	for _, caller := range r.opened {
		if err := caller.Close(); err != nil {
			if failed++; failed == 1 {
				r.say("closing a caller: %v", err)
			}
		}
	}
	r.opened = nil
}

// set records a figure.
func (r *run) set(key string, value float64) { r.values[key] = value }

// setLatencies records the median, the 99th percentile and the maximum in milliseconds, under keys with the prefix.
func (r *run) setLatencies(prefix string, sorted []time.Duration) {
	for key, quantile := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		if len(sorted) > 0 {
			r.set(prefix+key, milliseconds(quantileOf(sorted, quantile)))
		}
	}
}

// CostKey is the key of the figure that every workload with single tasks has: the processor time of the service, of all
// its processes, for each task.
const CostKey = "task_cpu"

// processor is the figure of setProcessor.
var processor = Figure{Key: CostKey, Title: "processor time a task", Unit: "µs"}

// setProcessor records the service's processor time in the measured part for each of its tasks. The meter has stopped.
func (r *run) setProcessor(tasks int) {
	if tasks > 0 {
		r.set(processor.Key, float64(r.usage.ServiceCPU)/float64(time.Microsecond)/float64(tasks))
	}
}

// latencyKinds are the figures of setLatencies.
func latencyKinds(prefix, title string) []Figure {
	return []Figure{
		{Key: prefix + "p50", Title: title + " p50", Unit: "ms"},
		{Key: prefix + "p99", Title: title + " p99", Unit: "ms"},
		{Key: prefix + "max", Title: title + " max", Unit: "ms"},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perSecond returns n/d a second; 0 if no time has passed.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// evenly returns the plan of an open loop at a rate a second.
func evenly(rate int) func(i int) time.Duration { return loop.Evenly(float64(rate)) }

// planned returns the planned time of the i-th operation after the first one.
func planned(i, rate int) time.Duration { return evenly(rate)(i) }

// reading is the processor time of the load and the service at an instant.
type reading struct {
	at      time.Time
	load    time.Duration
	service map[int]procstat.Tree // by process id
}

// read reads the current usage. It reports a failure to say, and the figures then lack the usage.
func (r *run) read() reading {
	now := reading{at: time.Now(), service: map[int]procstat.Tree{}}
	usage, err := r.processes()
	if err != nil {
		r.say("the service's memory and CPU time cannot be read: %v", err)
	} else {
		now.service = usage
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		r.say("the load's CPU time cannot be read: %v", err)
	}
	now.load = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return now
}

// processes returns the usage of each process of the service so far.
func (r *run) processes() (map[int]procstat.Tree, error) {
	pids := r.service.PIDs()
	all, err := procstat.OfTrees(pids...)
	if err != nil {
		return nil, fmt.Errorf("processes %v: %w", pids, err)
	}
	byPID := map[int]procstat.Tree{}
	for i, pid := range pids {
		byPID[pid] = all[i]
	}
	return byPID, nil
}

// since returns the usage between two readings. It counts the processes that lived throughout.
func (now reading) since(before reading) Usage {
	used := Usage{Elapsed: now.at.Sub(before.at), LoadCPU: now.load - before.load}
	for pid, usage := range now.service {
		if began, ok := before.service[pid]; ok {
			used.ServiceCPU += usage.Processor - began.Processor
		}
	}
	return used
}

// meter starts the measured part of the run. The returned stop ends it and records its usage.
func (r *run) meter() (stop func()) {
	before := r.read()
	return func() { r.usage = r.read().since(before) }
}
