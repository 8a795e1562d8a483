package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/figure"
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
	w := Workload{Name: "tails", Title: title, run: playTails, Figures: []figure.Kind{
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

func (p tailPart) figures() []figure.Kind {
	ms := func(key, title string) figure.Kind {
		return figure.Kind{Key: p.key + "_" + key, Title: p.title + ", " + title, Unit: "ms"}
	}
	return []figure.Kind{
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

// open makes the callers, and checks that the service has all needed abilities.
func (t *tailRun) open(ctx context.Context) (err error) {
	if t.load, err = t.loader(ctx); err != nil {
		return err
	}
	if _, err := able[subject.Replacer](t.load.callers[0], "replace tasks by batches"); err != nil {
		return err
	}
	for _, can := range []func(any) error{
		func(s any) error { _, err := able[subject.Queuer](s, "keep queues apart"); return err },
		func(s any) error { _, err := able[subject.LeaderStopper](s, "let its leader stop"); return err },
		func(s any) error { _, err := able[subject.ReadyAwaiter](s, "say when it is ready"); return err },
		func(s any) error { _, err := able[subject.Killer](s, "be killed and started again"); return err },
	} {
		if err := can(t.service); err != nil {
			return err
		}
	}
	t.writers = make([]*writer, t.sizes.ManyCallers)
	for i := range t.writers {
		t.writers[i] = &writer{service: t.service, failures: &t.failures}
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
