package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/internal/loop"
)

// firing is a number of tasks that are due evenly over a time.
type firing struct {
	tasks int
	over  time.Duration // 0: all in one millisecond
	push  bool          // by webhook, else to consumers
}

// fired is the outcome of a firing.
type fired struct {
	*ledger
	first time.Time // first due instant
}

// fire schedules the tasks in advance, and measures from the first due instant until the last arrival. The order of the
// due instants is random.
func (r *run) fire(ctx context.Context, f firing) (*fired, error) {
	out := &fired{ledger: newLedger(newIDs(), f.tasks)}
	stop, err := r.arrivals(ctx, f.push, out.got)
	if err != nil {
		return nil, err
	}
	err = r.fireTo(ctx, f, out)
	return out, cmp.Or(stop(), err) // a consumer's error explains why no task arrived
}

func (r *run) fireTo(ctx context.Context, f firing, out *fired) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if err := r.scheduleAhead(ctx, load, f, out); err != nil {
		return err
	}
	if err := loop.SleepUntil(ctx, out.first.Add(-readBefore)); err != nil {
		return err
	}
	stop := r.meter()
	defer stop()
	return out.wait(ctx, out.first.Add(f.over+r.sizes.Patience))
}

// readBefore is the time between reading the meter and the first due instant. Reading takes a while.
const readBefore = 50 * time.Millisecond

// scheduleAhead lays down the due instants, and schedules all tasks before the first one.
func (r *run) scheduleAhead(ctx context.Context, load *loader, f firing, out *fired) error {
	if err := r.layAhead(ctx, load, f, out); err != nil {
		return err
	}
	_, err := r.scheduleLaid(ctx, load, out)
	return err
}

// layAhead lays down the due instants, far enough ahead to schedule all tasks before the first one.
func (r *run) layAhead(ctx context.Context, load *loader, f firing, out *fired) error {
	lead, err := load.lead(ctx, f.tasks, newPayload(r.sizes.Payload))
	if err != nil {
		return err
	}
	out.first = time.Now().Add(lead).Truncate(time.Millisecond)
	f.layDown(out.ledger, out.first)
	return nil
}

func (r *run) scheduleLaid(ctx context.Context, load *loader, out *fired) (loop.Outcome, error) {
	payload := newPayload(r.sizes.Payload)
	took, err := load.load(ctx, len(out.due), func(i int) subject.Task {
		return subject.Task{ID: out.ids.id(i), Due: out.dueOf(i), Payload: payload}
	})
	if err != nil {
		return took, fmt.Errorf("scheduling: %w", err)
	}
	ahead := time.Until(out.first)
	r.say("scheduled %d tasks in %v, the first of them due %v later", len(out.due), took.Elapsed, ahead)
	if ahead <= 0 {
		return took, errLoadTooSlow
	}
	return took, nil
}

// layDown spreads the due instants evenly, in whole milliseconds. The order is random but always the same.
func (f firing) layDown(l *ledger, first time.Time) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(f.tasks)
	for i, place := range order {
		offset := time.Duration(float64(f.over) * float64(place) / float64(f.tasks))
		l.setDue(i, first.Add(offset.Truncate(time.Millisecond)))
	}
}

// latenessFigures are the figures of setLateness.
func latenessFigures() []Figure {
	kinds := append(latencyKinds("", "late"), Figure{Key: "p99.9", Title: "late p99.9", Unit: "ms"}, processor)
	return append(kinds, strayKinds()...)
}

// setLateness records the lateness and the cost of the tasks. The meter has stopped.
func (r *run) setLateness(f *fired) {
	p := f.punctuality(nil)
	r.setLatencies("", p.lateness)
	if len(p.lateness) > 0 {
		r.set("p99.9", milliseconds(quantileOf(p.lateness, 0.999)))
	}
	r.setProcessor(len(f.due))
	r.setStrays(f.ledger, p)
	r.say("%d arrived, %d of them early, %d came again, %d did not arrive",
		len(p.lateness), p.early, f.repeats.Load(), p.lost)
}

// strayKinds are the figures of setStrays.
func strayKinds() []Figure {
	return []Figure{
		{Key: "early", Title: "early"}, {Key: "lost", Title: "lost"}, {Key: "repeats", Title: "came again"},
	}
}

// setStrays records how many tasks were early, lost or repeated.
func (r *run) setStrays(l *ledger, p punctuality) {
	r.set("early", float64(p.early))
	r.set("lost", float64(p.lost))
	r.set("repeats", float64(l.repeats.Load()))
}

// lateness measures how late tasks arrive that are due evenly over a time.
func lateness(name, title string, f firing) Workload {
	w := Workload{Name: name, Title: title, Figures: latenessFigures(), needs: []need{toDeliver(f.push)}}
	w.run = func(ctx context.Context, r *run) error {
		f, err := r.fire(ctx, f)
		if err != nil {
			return err
		}
		r.setLateness(f)
		return nil
	}
	return w
}

// burst measures the time from the common due instant of all tasks to the last arrival.
func burst(name, how string, f firing) Workload {
	w := Workload{Name: name, Title: fmt.Sprintf("%d due in one millisecond, %s", f.tasks, how)}
	w.needs = []need{toDeliver(f.push)}
	w.Figures = append([]Figure{
		{Key: "drained", Title: "drained after", Unit: "ms"},
		{Key: "rate", Title: "a second", Unit: "/s", Higher: true},
	}, latenessFigures()...)
	w.run = func(ctx context.Context, r *run) error {
		f, err := r.fire(ctx, f)
		if err != nil {
			return err
		}
		r.setLateness(f)
		_, last := f.span()
		if f.missing.Load() == 0 {
			r.set("drained", milliseconds(last.Sub(f.first)))
			r.set("rate", perSecond(len(f.due), last.Sub(f.first)))
		}
		return nil
	}
	return w
}

// steadyDelay is the time between the planned schedule of a steady task and its due instant.
const steadyDelay = time.Second

// steady schedules tasks at a fixed rate while earlier ones fire. It measures the latency of acknowledgements and the
// lateness of tasks under both loads.
func steady(s Sizes) Workload {
	return Workload{
		Name: "steady", Title: fmt.Sprintf("%d a second scheduled and fired", s.SteadyRate),
		Figures: append(latencyKinds("ack_", "acknowledged after"), latenessFigures()...),
		needs:   []need{toBeConsumed}, run: playSteady,
	}
}

func playSteady(ctx context.Context, r *run) error {
	rate := r.sizes.SteadyRate
	n := int(float64(rate) * r.sizes.SteadyFor.Seconds())
	out := &fired{ledger: newLedger(newIDs(), n)}
	stop, err := r.consume(ctx, r.sizes.Consumers, out.got)
	if err != nil {
		return err
	}
	latencies, err := r.scheduleSteadily(ctx, out, n, rate)
	if err := cmp.Or(stop(), err); err != nil {
		return err
	}
	slices.Sort(latencies)
	r.setLatencies("ack_", latencies)
	r.setLateness(out)
	return nil
}

func (r *run) scheduleSteadily(ctx context.Context, out *fired, n, rate int) ([]time.Duration, error) {
	load, err := r.loader(ctx)
	if err != nil {
		return nil, err
	}
	payload := newPayload(r.sizes.Payload)
	if _, err := load.load(ctx, len(load.callers), farOff(newIDs(), payload)); err != nil {
		return nil, err
	}
	begin := time.Now().Truncate(time.Millisecond).Add(time.Second)
	out.first = begin.Add(steadyDelay)
	for i := range n {
		out.setDue(i, out.first.Add(planned(i, rate).Truncate(time.Millisecond)))
	}
	stop := r.meter()
	defer stop()
	schedule := func(ctx context.Context, c subject.Caller, i int) error {
		return c.Schedule(ctx, subject.Task{ID: out.ids.id(i), Due: out.dueOf(i), Payload: payload})
	}
	latencies, err := loop.Open(ctx, load.callers, begin, n, evenly(rate), schedule)
	if err != nil {
		return nil, fmt.Errorf("scheduling: %w", err)
	}
	return latencies, out.wait(ctx, out.dueOf(n-1).Add(r.sizes.Patience))
}

// The paths of the receiver in the workload.
const (
	healthyPath = "healthy"
	badPath     = "bad"
)

// badPathWebhook measures the lateness of tasks for one path of a receiver while another path refuses, fails or hangs.
func badPathWebhook(s Sizes) Workload {
	f := firing{tasks: s.HealthyTasks, over: s.HealthyOver, push: true}
	title := fmt.Sprintf("webhooks, %.0f a second beside %d tasks at a bad path", perSecond(f.tasks, f.over), s.BadTasks)
	return Workload{
		Name: "bad-path-webhook", Title: title, Figures: latenessFigures(), needs: []need{toPush},
		run: func(ctx context.Context, r *run) error { return playBadPath(ctx, r, f) },
	}
}

func playBadPath(ctx context.Context, r *run, f firing) error {
	out := &fired{ledger: newLedger(newIDs(), f.tasks)}
	pusher := r.service.(subject.Pusher)
	url, stop, err := listen(ctx, out.got)
	if err != nil {
		return err
	}
	if err = failFirst(ctx, r, pusher, url+badPath); err == nil {
		err = pusher.PushTo(url + healthyPath)
	}
	if err == nil {
		err = r.fireTo(ctx, f, out)
	}
	if err = errors.Join(err, stop()); err == nil {
		r.setLateness(out)
	}
	return err
}

// failFirst schedules the tasks for the bad path, due at once, and waits until they have failed.
func failFirst(ctx context.Context, r *run, pusher subject.Pusher, url string) error {
	load, err := r.loader(ctx)
	if err != nil {
		return err
	}
	if err := pusher.PushTo(url); err != nil {
		return err
	}
	ids, due, payload := newIDs(), time.Now().Truncate(time.Millisecond), newPayload(r.sizes.Payload)
	if _, err := load.load(ctx, r.sizes.BadTasks, func(i int) subject.Task {
		return subject.Task{ID: ids.id(i), Due: due, Payload: payload}
	}); err != nil {
		return fmt.Errorf("scheduling for the bad path: %w", err)
	}
	return loop.SleepUntil(ctx, due.Add(r.sizes.BadFirst))
}

// answerBadly refuses, fails or never answers, by the last digit of the task's id.
func answerBadly(w http.ResponseWriter, r *http.Request) {
	statuses := []int{http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusInternalServerError}
	id := r.Header.Get("Ce-Subject")
	if id == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if n := int(id[len(id)-1]) % (len(statuses) + 1); n < len(statuses) {
		w.WriteHeader(statuses[n])
		return
	}
	<-r.Context().Done()
}
