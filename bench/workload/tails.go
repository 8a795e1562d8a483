package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// tailLimit is the longest acceptable latency of a schedule.
const tailLimit = 50 * time.Millisecond

// tails schedules at half of the service's highest rate while a disturbance may make it wait. Each disturbance has its
// own part of the time. Latencies count from the planned instants of the schedules.
func tails(s Sizes) Workload {
	title := fmt.Sprintf("%d a second scheduled", s.TailsRate)
	if s.TailsRate == 0 {
		title = "schedules at half of the capacity"
	}
	needs := []need{toReplace, toBeConsumed, toSeparate, toStopLeader, toTellReady, toBeKilled}
	w := Workload{Name: "tails", Title: title, needs: needs, run: playTails, Figures: []Figure{
		{Key: "rate", Title: "scheduled a second", Unit: "/s", Higher: true},
		{Key: "over", Title: fmt.Sprintf("over %v", tailLimit)},
	}}
	for _, p := range tailParts {
		w.Figures = append(w.Figures, p.figures()...)
	}
	return w
}

// tailPart is a part of the time with one disturbance.
type tailPart struct {
	key, title string
	// prepare sets the part up. It returns the beginning of the part and its disturbance; nil: none.
	prepare func(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error)
}

// disturbance runs beside the schedules until its context ends.
type disturbance func(ctx context.Context) error

// tailParts are all parts in order. The moves come last, because the service may need a while to recover from them.
var tailParts = []tailPart{
	{"quiet", "nothing else", prepareQuiet},
	{"snapshots", "the log grows and is cut", prepareSnapshots},
	{"cascade", "a slot is opened", prepareCascade},
	{"storm", "a storm", prepareStorm},
	{"moves", "leaders move", prepareMoves},
}

func (p tailPart) figures() []Figure {
	ms := func(key, title string) Figure {
		return Figure{Key: p.key + "_" + key, Title: p.title + ", " + title, Unit: "ms"}
	}
	return []Figure{
		ms("p50", "p50"), ms("p99", "p99"), ms("p99.9", "p99.9"), ms("max", "max"),
		{Key: p.key + "_over", Title: fmt.Sprintf("%s, over %v", p.title, tailLimit)},
	}
}

// tailRun is one run of the workload.
type tailRun struct {
	*run
	load     *loader
	writers  []*writer
	failures atomic.Int64
	rate     int
	over     int
	records  recorder
}

func playTails(ctx context.Context, r *run) error {
	t := &tailRun{run: r, records: recorder{run: r}}
	if err := t.open(ctx); err != nil {
		return err
	}
	defer t.close()
	if err := t.fill(ctx); err != nil {
		return err
	}
	if err := t.chooseRate(ctx); err != nil {
		return err
	}
	r.set("rate", float64(t.rate))
	stop := r.meter()
	defer stop()
	for _, p := range tailParts {
		if only := r.sizes.TailsParts; len(only) > 0 && !slices.Contains(only, p.key) {
			continue
		}
		if err := t.play(ctx, p); err != nil {
			return fmt.Errorf("while %s: %w", p.title, err)
		}
	}
	r.set("over", float64(t.over))
	return nil
}

// open makes the callers.
func (t *tailRun) open(ctx context.Context) (err error) {
	if t.load, err = t.loader(ctx); err != nil {
		return err
	}
	t.writers = make([]*writer, t.sizes.ManyCallers)
	for i := range t.writers {
		t.writers[i] = &writer{run: t.run, failures: &t.failures}
	}
	return nil
}

func (t *tailRun) close() {
	t.records.close()
	for _, w := range t.writers {
		w.drop()
	}
}

// fill schedules the tasks that are pending throughout.
func (t *tailRun) fill(ctx context.Context) error {
	took, err := t.load.load(ctx, t.sizes.TailsPending, farOff(newIDs(), newPayload(t.sizes.Payload)))
	if err != nil {
		return fmt.Errorf("scheduling the tasks that are there before: %w", err)
	}
	t.say("%d tasks are there, scheduled in %v", t.sizes.TailsPending, took.Elapsed)
	return nil
}

// probeFor is the duration of measuring the service's highest rate.
const probeFor = 5 * time.Second

// chooseRate takes the configured rate, or half of the rate that the same writers reach in a closed loop.
func (t *tailRun) chooseRate(ctx context.Context) error {
	if t.rate = t.sizes.TailsRate; t.rate > 0 {
		return nil
	}
	task := farOff(newIDs(), newPayload(t.sizes.Payload))
	took, err := loop.Closed(ctx, t.writers, loop.AnyNumber, probeFor, func(ctx context.Context, w *writer, i int) error {
		return w.write(ctx, task(i))
	})
	if err != nil {
		return fmt.Errorf("measuring the capacity: %w", err)
	}
	most := perSecond(took.Done, took.Elapsed)
	t.rate = max(int(most/2), 1)
	t.say("%d callers get %.0f schedules a second acknowledged; half of that is %d", len(t.writers), most, t.rate)
	return nil
}

// play schedules during one part and records its figures.
func (t *tailRun) play(ctx context.Context, p tailPart) error {
	begin, disturb, err := p.prepare(ctx, t)
	if err != nil {
		return err
	}
	if err := loop.SleepUntil(ctx, begin); err != nil {
		return err
	}
	latencies, err := t.scheduleBeside(ctx, p.key, begin, disturb)
	if err != nil {
		return err
	}
	t.setTails(p, begin, latencies)
	return nil
}

// scheduleBeside schedules beside the disturbance, and then ends the disturbance.
func (t *tailRun) scheduleBeside(
	ctx context.Context, key string, begin time.Time, disturb disturbance,
) (latencies []time.Duration, err error) {
	group, gctx := errgroup.WithContext(ctx)
	disturbing, end := context.WithCancel(gctx)
	defer end()
	if disturb != nil {
		group.Go(func() error { return disturb(disturbing) })
	}
	group.Go(func() (err error) {
		defer end()
		latencies, err = t.pace(gctx, key, begin)
		return err
	})
	return latencies, group.Wait()
}

func (t *tailRun) pace(ctx context.Context, key string, begin time.Time) ([]time.Duration, error) {
	n := int(float64(t.rate) * t.sizes.TailsFor.Seconds())
	task := farOff(newIDs(), newPayload(t.sizes.Payload))
	return loop.Open(ctx, t.writers, begin, n, evenly(t.rate), func(ctx context.Context, w *writer, i int) error {
		err := w.write(ctx, task(i))
		if time.Since(begin.Add(planned(i, t.rate))) > tailLimit {
			t.records.keep(ctx, key)
		}
		return err
	})
}

func (t *tailRun) setTails(p tailPart, begin time.Time, latencies []time.Duration) {
	for _, s := range longest(stallsIn(latencies, t.rate), stallsTold) {
		t.say("%s: from %v on, at %s, %d schedules took longer than %v, up to %v", p.title, s.from,
			begin.Add(s.from).Format("15:04:05.000"), s.calls, tailLimit, s.longest)
	}
	over := 0
	for _, l := range latencies {
		if l > tailLimit {
			over++
		}
	}
	t.over += over
	slices.Sort(latencies)
	t.setLatencies(p.key+"_", latencies)
	t.set(p.key+"_p99.9", milliseconds(quantileOf(latencies, 0.999)))
	t.set(p.key+"_over", float64(over))
	t.say("%s: %d schedules, p50 %.1f ms, p99.9 %.1f ms, max %.1f ms, %d over %v; %d tries failed so far", p.title,
		len(latencies), t.values[p.key+"_p50"], t.values[p.key+"_p99.9"], t.values[p.key+"_max"], over, tailLimit,
		t.failures.Load())
}

// stall is a series of schedules that took longer than the limit.
type stall struct {
	from    time.Duration // planned instant of the first one, after the beginning
	calls   int
	longest time.Duration
}

// stallsTold is the largest number of reported stalls of a part.
const stallsTold = 5

// longest returns the longest stalls in their order, at most most unless some are equally long.
func longest(stalls []stall, most int) []stall {
	if len(stalls) <= most {
		return stalls
	}
	by := slices.SortedFunc(slices.Values(stalls), func(a, b stall) int { return cmp.Compare(b.longest, a.longest) })
	return slices.DeleteFunc(stalls, func(s stall) bool { return s.longest < by[most-1].longest })
}

// stallsIn finds the stalls in latencies, which are in the order of the planned instants. Slow schedules more than
// tailLimit apart belong to different stalls.
func stallsIn(latencies []time.Duration, rate int) []stall {
	var stalls []stall
	var last time.Duration
	for i, l := range latencies {
		if l <= tailLimit {
			continue
		}
		at := planned(i, rate)
		if len(stalls) == 0 || at-last > tailLimit {
			stalls = append(stalls, stall{from: at})
		}
		s := &stalls[len(stalls)-1]
		s.calls++
		s.longest = max(s.longest, l)
		last = at
	}
	return stalls
}

// soonAfter is the time between the preparation of a part and its beginning.
const soonAfter = 100 * time.Millisecond

func prepareQuiet(context.Context, *tailRun) (time.Time, disturbance, error) {
	return time.Now().Add(soonAfter), nil, nil
}

// Tasks that are replaced repeatedly, so that the log grows while the number of tasks does not.
const (
	rewriteBytes = 16 << 10 // of a payload
	rewriteBatch = 16
	rewriteTasks = 100 * rewriteBatch
	rewriters    = 4
)

// prepareSnapshots makes the log grow, so that the service writes snapshots and shortens the log.
func prepareSnapshots(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	callers, err := t.callers(ctx, rewriters)
	if err != nil {
		return begin, nil, err
	}
	begin = time.Now().Add(soonAfter)
	rate := max(t.sizes.TailsRewrite/rewriteBytes/rewriteBatch, 1) // batches a second
	n := int(float64(rate) * t.sizes.TailsFor.Seconds())
	task := farOff(newIDs(), newPayload(rewriteBytes))
	return begin, func(ctx context.Context) error {
		_, err := loop.Open(ctx, callers, begin, n, evenly(rate), func(ctx context.Context, c subject.Caller, i int) error {
			first := i * rewriteBatch % rewriteTasks
			return c.(subject.Replacer).Replace(ctx, batchOf(task, first, first+rewriteBatch))
		})
		return subject.Ended(ctx, err)
	}, nil
}

// prepareCascade makes many tasks due in the middle of the part, within a span that a timing wheel opens as one slot or
// in a few steps. No consumer takes them.
func prepareCascade(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	payload := newPayload(t.sizes.Payload)
	lead, err := t.load.lead(ctx, t.sizes.TailsCascade, payload)
	if err != nil {
		return begin, nil, err
	}
	half := t.sizes.TailsFor / 2
	span := t.sizes.TailsSpan
	opened := nextMultiple(time.Now().Add(lead+half), span)
	ids := newIDs()
	took, err := t.load.load(ctx, t.sizes.TailsCascade, func(i int) subject.Task {
		offset := time.Duration(float64(span) * float64(i) / float64(t.sizes.TailsCascade))
		return subject.Task{ID: ids.id(i), Due: opened.Add(offset.Truncate(time.Millisecond)), Payload: payload}
	})
	if err != nil {
		return begin, nil, fmt.Errorf("scheduling the tasks that come due: %w", err)
	}
	begin = opened.Add(-half)
	t.say("%d tasks, scheduled in %v, come due within %v from %s on", t.sizes.TailsCascade, took.Elapsed, span,
		opened.Format("15:04:05.000"))
	if time.Until(begin) < 0 {
		return begin, nil, errLoadTooSlow
	}
	return begin, nil, nil
}

// nextMultiple returns the next instant whose Unix time is a multiple of the span.
func nextMultiple(after time.Time, span time.Duration) time.Time {
	return time.Unix(0, (after.UnixNano()/int64(span)+1)*int64(span))
}

const stormQueue = "storm"

// prepareStorm makes many tasks of a queue due in one millisecond while the queue's consumers come and go.
func prepareStorm(ctx context.Context, t *tailRun) (begin time.Time, disturb disturbance, err error) {
	queuer := t.service.(subject.Queuer)
	callers, err := t.run.open(t.sizes.Callers, func(int) (subject.Caller, error) {
		return queuer.QueueCaller(ctx, stormQueue)
	})
	if err != nil {
		return begin, nil, err
	}
	out := &fired{ledger: newLedger(newIDs(), t.sizes.BurstTasks)}
	load := &loader{callers: callers, batch: t.load.batch}
	if err := t.scheduleAhead(ctx, load, firing{tasks: t.sizes.BurstTasks}, out); err != nil {
		return begin, nil, err
	}
	begin = out.first.Add(-t.sizes.TailsFor / 4)
	if soon := time.Now().Add(soonAfter); begin.Before(soon) {
		begin = soon
	}
	return begin, func(ctx context.Context) error {
		err := t.consumeByTurns(ctx, queuer, out.got)
		_, last := out.span()
		t.say("%d of %d tasks arrived, the last after %v", len(out.due)-int(out.missing.Load()), len(out.due),
			last.Sub(out.first))
		return err
	}, nil
}

// Durations for which consumers stay. They differ, so that the consumers do not go at once.
const (
	shortestStay = 100 * time.Millisecond
	stayStep     = 37 * time.Millisecond
	stays        = 10
)

// consumeByTurns keeps TailsConsumers consumers running, each of which comes, stays for a moment and goes.
func (t *tailRun) consumeByTurns(ctx context.Context, queuer subject.Queuer, got got) error {
	var group errgroup.Group
	for i := range t.sizes.TailsConsumers {
		group.Go(func() error {
			for turn := i; ctx.Err() == nil; turn++ {
				stay := shortestStay + time.Duration(turn%stays)*stayStep
				if err := consumeFor(ctx, queuer, stay, got); err != nil {
					return subject.Ended(ctx, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func consumeFor(ctx context.Context, queuer subject.Queuer, stay time.Duration, got got) error {
	ctx, cancel := context.WithTimeout(ctx, stay)
	defer cancel()
	caller, err := queuer.QueueCaller(ctx, stormQueue)
	if err != nil {
		return err
	}
	err = subject.Ended(ctx, caller.(subject.Consumer).Consume(ctx, got))
	return cmp.Or(err, caller.Close())
}

// moveEvery is the pause between a restarted node's readiness and the next stop. The shards have returned by then.
const moveEvery = 6 * time.Second

// prepareMoves stops one leader after the other gracefully and restarts it. Its shards move to other nodes and then
// back.
func prepareMoves(_ context.Context, t *tailRun) (time.Time, disturbance, error) {
	stopper, killer := t.service.(subject.LeaderStopper), t.service.(subject.Killer)
	awaiter := t.service.(subject.ReadyAwaiter)
	return time.Now().Add(soonAfter), func(ctx context.Context) error {
		next := time.Now().Add(soonAfter)
		for loop.SleepUntil(ctx, next) == nil {
			began := time.Now()
			err := stopper.StopLeader()
			took := time.Since(began)
			if err := errors.Join(err, killer.Restart(context.WithoutCancel(ctx))); err != nil {
				return err
			}
			if err := awaiter.AwaitReady(ctx); err != nil {
				return subject.Ended(ctx, err)
			}
			t.say("a leader was stopped at %s, which took %v; all were ready again %v after", began.Format("15:04:05.000"),
				took, time.Since(began)-took)
			next = time.Now().Add(moveEvery)
		}
		return nil
	}, nil
}

// recordsKept is the largest number of recordings for one reason.
const recordsKept = 2

// recorder makes the service write its recordings after a slow call, if the service can.
type recorder struct {
	run *run

	mu      sync.Mutex
	kept    map[string]int
	writing bool
	writers sync.WaitGroup
}

// keep writes the recordings in the background. It does nothing while another write is in progress.
func (k *recorder) keep(ctx context.Context, name string) {
	service, ok := k.run.service.(subject.Recorder)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.writing || k.kept[name] == recordsKept {
		return
	}
	if k.kept == nil {
		k.kept = map[string]int{}
	}
	k.kept[name]++
	k.writing = true
	label := fmt.Sprintf("%s-%d", name, k.kept[name])
	k.writers.Go(func() { k.write(context.WithoutCancel(ctx), service, label) })
}

func (k *recorder) write(ctx context.Context, service subject.Recorder, label string) {
	where, err := service.Keep(ctx, label)
	switch {
	case err != nil:
		k.run.say("what the service did could not be kept: %v", err)
	case where != "":
		k.run.say("what the service did: %s", where)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writing = false
}

// close returns when the write in progress has ended.
func (k *recorder) close() { k.writers.Wait() }
