package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// The two tenants of the workload.
const (
	quietTenant = "neighbour"
	stormTenant = "storm"
)

var stormKinds = []struct {
	kind  subject.StormKind
	title string
}{
	{subject.StormBatches, "batches without a pause"},
	{subject.StormCalls, "single calls without a pause"},
	{subject.StormDue, "tasks due at one instant"},
	{subject.StormSilent, "receivers that never answer"},
}

// neighbours measures a tenant that schedules at a moderate rate, alone and beside a storm of another tenant, by turns.
// A ratio is the median over the turns of the figure beside the storm by the one alone just before.
func neighbours(s Sizes, receive receiving) Workload {
	w := Workload{Name: "neighbours", Title: fmt.Sprintf("%d a second beside a storm", s.NeighbourRate)}
	w.needs = []need{toKeepTenants}
	w.run = func(ctx context.Context, r *run) error {
		return playNeighbours(ctx, &neighbourRun{run: r, receive: receive, tenants: r.service.(subject.Tenants)})
	}
	for _, k := range stormKinds {
		figure := func(key, title, unit string, higher bool) Figure {
			return Figure{Key: string(k.kind) + "_" + key, Title: k.title + ", " + title, Unit: unit, Higher: higher}
		}
		w.Figures = append(w.Figures,
			figure("call_alone", "call p99 alone", "ms", false), figure("call", "call p99", "ms", false),
			figure("call_ratio", "call p99 by alone", "", false), figure("late_alone", "late p99 alone", "ms", false),
			figure("late", "late p99", "ms", false), figure("late_ratio", "late p99 by alone", "", false),
			figure("kept", "kept of the rate", "%", true))
	}
	return w
}

// receiving starts a receiver, as listen does. An empty URL leaves all tasks to consumers.
type receiving func(ctx context.Context, got got) (url string, stop func() error, err error)

// neighbourRun is one run of the workload.
type neighbourRun struct {
	*run
	receive receiving
	tenants subject.Tenants
	callers []subject.Caller       // those at even places have a receiver, the others consumers
	ledger  atomic.Pointer[ledger] // of the present measurement
}

func playNeighbours(ctx context.Context, t *neighbourRun) (err error) {
	stop, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if _, err := t.measure(ctx, time.Now()); err != nil { // not counted: connections open
		return err
	}
	metered := t.meter()
	defer metered()
	for _, k := range stormKinds {
		if only := t.sizes.NeighbourStorms; len(only) > 0 && !slices.Contains(only, string(k.kind)) {
			continue
		}
		if err := t.play(ctx, k.kind); err != nil {
			return fmt.Errorf("beside %s: %w", k.title, err)
		}
	}
	return nil
}

// open makes the neighbour's callers, its receiver and its consumer.
func (t *neighbourRun) open(ctx context.Context) (stop func() error, err error) {
	got := func(id string, at time.Time) {
		if l := t.ledger.Load(); l != nil {
			l.got(id, at)
		}
	}
	url, closeReceiver, err := t.receive(ctx, got)
	if err != nil {
		return nil, err
	}
	urls := []string{url, ""}
	t.callers, err = t.run.open(t.sizes.Callers, func(i int) (subject.Caller, error) {
		return t.tenants.TenantCaller(ctx, quietTenant, urls[i%len(urls)])
	})
	if err != nil {
		return nil, errors.Join(err, closeReceiver())
	}
	endConsumer := consumeBy(ctx, t.callers[:1], got)
	return func() error { return errors.Join(endConsumer(), closeReceiver()) }, nil
}

// neighbourDelay is the delay of the neighbour's tasks, and inTime the time for a call's answer, and for the arrival of
// a due task, in which it counts as kept.
const (
	neighbourDelay = time.Second
	inTime         = time.Second
)

// neighbourly is one measurement of the neighbour.
type neighbourly struct {
	callP50, callP99, lateP50, lateP99 time.Duration
	kept                               float64 // tasks acknowledged and arrived in time, of all
}

// measure schedules at the neighbour's rate from an instant on, and waits until the tasks have arrived.
func (t *neighbourRun) measure(ctx context.Context, begin time.Time) (m neighbourly, err error) {
	n := int(float64(t.sizes.NeighbourRate) * t.sizes.NeighbourFor.Seconds())
	l, payload := newLedger(newIDs(), n), newPayload(t.sizes.Payload)
	t.ledger.Store(l)
	due := func(i int) time.Time {
		return begin.Add(planned(i, t.sizes.NeighbourRate) + neighbourDelay).Truncate(time.Millisecond)
	}
	calls, err := loop.Open(ctx, t.callers, begin, n, evenly(t.sizes.NeighbourRate),
		func(ctx context.Context, c subject.Caller, i int) error {
			l.setDue(i, due(i))
			return c.Schedule(ctx, subject.Task{ID: l.ids.id(i), Due: due(i), Payload: payload})
		})
	if err != nil {
		return m, err
	}
	if err := l.wait(ctx, time.Now().Add(t.sizes.Patience)); err != nil {
		return m, err
	}
	kept := 0
	for i, call := range calls {
		if at := l.arrivedAt(i); call <= inTime && !at.IsZero() && at.Sub(due(i)) <= inTime {
			kept++
		}
	}
	late := l.punctuality(nil).lateness
	slices.Sort(calls)
	return neighbourly{
		quantileOf(calls, 0.5), quantileOf(calls, 0.99), quantileOf(late, 0.5), quantileOf(late, 0.99),
		float64(kept) / float64(n),
	}, nil
}

// play measures the neighbour alone and beside a storm, by turns.
func (t *neighbourRun) play(ctx context.Context, kind subject.StormKind) error {
	var alone, beside []neighbourly
	for range t.sizes.NeighbourTurns {
		a, err := t.measure(ctx, time.Now().Add(soonAfter))
		if err != nil {
			return err
		}
		b, err := t.measureBeside(ctx, kind)
		if err != nil {
			return err
		}
		t.say("%s: calls p50 %v → %v, p99 %v → %v; late p50 %v → %v, p99 %v → %v; kept %.1f %% → %.1f %%", kind,
			a.callP50, b.callP50, a.callP99, b.callP99, a.lateP50, b.lateP50, a.lateP99, b.lateP99,
			100*a.kept, 100*b.kept)
		alone, beside = append(alone, a), append(beside, b)
		if err := loop.SleepUntil(ctx, time.Now().Add(stormAfter)); err != nil {
			return err
		}
	}
	t.setNeighbour(string(kind), alone, beside)
	return nil
}

// stormAfter is the pause after a storm, in which the service ends the work under way.
const stormAfter = 2 * time.Second

func (t *neighbourRun) measureBeside(ctx context.Context, kind subject.StormKind) (m neighbourly, err error) {
	s := subject.Storm{
		Kind: kind, Connections: t.sizes.StormConnections, Batch: t.sizes.StormBatch, Payload: t.sizes.Payload,
		Quota: t.sizes.StormQuota,
	}
	begin := func() time.Time { return time.Now().Add(soonAfter) }
	switch kind {
	case subject.StormDue:
		s.Tasks, s.At = t.sizes.StormDue, time.Now().Add(stormLead+time.Duration(t.sizes.StormDue)*stormEach)
		begin = func() time.Time { return s.At.Add(-soonAfter) }
	case subject.StormSilent:
		s.Tasks = t.sizes.StormSilent
	}
	storming, err := t.tenants.Storm(ctx, stormTenant, s)
	if err != nil {
		return m, err
	}
	began := time.Now()
	if first := begin(); time.Until(first) < 0 {
		err = errLoadTooSlow
	} else if err = loop.SleepUntil(ctx, first.Add(-soonAfter)); err == nil {
		m, err = t.measure(ctx, first)
	}
	tasks, ended := storming.End()
	took := time.Since(began)
	t.say("%s: the storm had %d tasks acknowledged, %.0f a second since it began", kind, tasks, perSecond(tasks, took))
	return m, errors.Join(err, ended)
}

// The time in which a storm schedules its tasks of one instant.
const (
	stormLead = 2 * time.Second
	stormEach = 80 * time.Microsecond
)

func (t *neighbourRun) setNeighbour(kind string, alone, beside []neighbourly) {
	call := func(m neighbourly) time.Duration { return m.callP99 }
	late := func(m neighbourly) time.Duration { return m.lateP99 }
	for key, latency := range map[string]func(neighbourly) time.Duration{"call": call, "late": late} {
		t.set(kind+"_"+key+"_alone", median(alone, func(i int) float64 { return milliseconds(latency(alone[i])) }))
		t.set(kind+"_"+key, median(beside, func(i int) float64 { return milliseconds(latency(beside[i])) }))
		t.set(kind+"_"+key+"_ratio", median(alone, func(i int) float64 {
			return float64(latency(beside[i])) / float64(max(latency(alone[i]), time.Microsecond))
		}))
	}
	t.set(kind+"_kept", median(alone, func(i int) float64 { return 100 * beside[i].kept / max(alone[i].kept, 0.01) }))
}

// median returns the middle one of the values of all places of a list.
func median[T any](list []T, value func(i int) float64) float64 {
	values := make([]float64, len(list))
	for i := range list {
		values[i] = value(i)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
