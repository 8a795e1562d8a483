package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/loop"
)

// repeating measures many schedules that repeat: their creation, their memory, their occurrences, and a restart of the
// service with all of them. The schedules have one interval, and their instants are spread evenly over it.
func repeating(s Sizes) Workload {
	figures := append([]Figure{{Key: "rate", Title: "created a second", Unit: "/s", Higher: true}},
		latencyKinds("call_", "call")...)
	figures = append(figures,
		Figure{Key: "rss", Title: "RSS, largest process", Unit: "MB"},
		Figure{Key: "rss_all", Title: "RSS, all processes", Unit: "MB"},
		Figure{Key: "schedule", Title: "a schedule, largest process", Unit: "B"},
		Figure{Key: "arrived", Title: "occurrences arrived", Higher: true},
		Figure{Key: "fired", Title: "occurrences a second", Unit: "/s", Higher: true})
	figures = append(figures, latencyKinds("late_", "late")...)
	figures = append(figures, strayKinds()...)
	figures = append(figures,
		Figure{Key: "cpu_all", Title: "of a core, all processes, while firing", Unit: "%"},
		Figure{Key: "rss_fired", Title: "RSS after firing, largest process", Unit: "MB"},
		Figure{Key: "kept", Title: "schedules after the restart", Higher: true},
		Figure{Key: "ready", Title: "start to ready", Unit: "ms"},
		Figure{Key: "first", Title: "start to first fire", Unit: "ms"})
	return Workload{
		Name:    "repeating",
		Title:   fmt.Sprintf("%d repeating schedules, each every %v", s.RepeatSchedules, s.RepeatEvery),
		Figures: figures, needs: []need{toRepeat, toBeConsumed, toCount, toBeKilled, toTellReady}, run: playRepeating,
	}
}

// repeatRun is one run of the workload. Occurrence g of all schedules belongs to schedule g%n, where n is the number of
// schedules. The ledger has the occurrences that are due within Sizes.RepeatFor.
type repeatRun struct {
	*run
	callers []subject.Caller

	first  time.Time // first occurrence of schedule 0
	ledger *ledger
	before map[int]procstat.Tree // usage by process before the schedules
}

func playRepeating(ctx context.Context, r *run) (err error) {
	p := &repeatRun{run: r}
	if p.callers, err = r.callers(ctx, r.sizes.Callers); err != nil {
		return err
	}
	if p.before, err = p.someProcesses(); err != nil {
		return err
	}
	if err := p.create(ctx); err != nil {
		return err
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	if err := p.fire(ctx); err != nil {
		return err
	}
	return p.restart(ctx)
}

// offset returns the time from the first occurrence of schedule 0 to that of schedule i, in whole milliseconds.
func (p *repeatRun) offset(i int) time.Duration {
	share := float64(i) / float64(p.sizes.RepeatSchedules)
	return time.Duration(share * float64(p.sizes.RepeatEvery)).Truncate(time.Millisecond)
}

func (p *repeatRun) due(g int) time.Time {
	n := p.sizes.RepeatSchedules
	return p.first.Add(p.offset(g%n) + time.Duration(g/n)*p.sizes.RepeatEvery)
}

// create creates all schedules before their first occurrences, in a random order of the instants.
func (p *repeatRun) create(ctx context.Context) error {
	n, payload := p.sizes.RepeatSchedules, newPayload(p.sizes.Payload)
	set := newIDs()
	p.ledger = newLedger(set, int(float64(n)*float64(p.sizes.RepeatFor)/float64(p.sizes.RepeatEvery)))
	order := rand.New(rand.NewPCG(1, 2)).Perm(n)
	put := func(ctx context.Context, c subject.Caller, k int) error {
		i := order[k]
		return c.(subject.Repeater).Repeat(ctx, subject.Schedule{
			ID: set.id(i), First: p.first.Add(p.offset(i)), Every: p.sizes.RepeatEvery, Payload: payload,
		})
	}
	lead, err := p.lead(ctx, put)
	if err != nil {
		return fmt.Errorf("creating a sample: %w", err)
	}
	p.first = time.Now().Add(lead).Truncate(time.Millisecond)
	for g := range p.ledger.due {
		p.ledger.setDue(g, p.due(g))
	}
	took, err := loop.Closed(ctx, p.callers, n, loop.Forever, put)
	if err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	p.set("rate", perSecond(n, took.Elapsed))
	p.setLatencies("call_", took.Latencies)
	p.say("%d callers created %d schedules in %v", len(p.callers), n, took.Elapsed)
	_, err = p.await(ctx)
	return err
}

// lead creates a sample of the schedules with far-off occurrences, which are replaced later. It returns how long before
// the first occurrence the creation of all must begin: two seconds, the quiet time, and twice the estimate.
func (p *repeatRun) lead(
	ctx context.Context, put func(ctx context.Context, c subject.Caller, k int) error,
) (time.Duration, error) {
	p.first = time.Now().Truncate(time.Millisecond).Add(24 * time.Hour)
	n := p.sizes.RepeatSchedules
	sample := min(n, n/leadSample+2*len(p.callers))
	took, err := loop.Closed(ctx, p.callers, sample, loop.Forever, put)
	if err != nil {
		return 0, err
	}
	return 2*took.Elapsed*time.Duration(n)/time.Duration(sample) + p.sizes.Settle + 2*time.Second, nil
}

// schedulesPoll is the pause between two counts of schedules.
const schedulesPoll = 100 * time.Millisecond

// await waits until the service counts all schedules, and returns their number.
func (p *repeatRun) await(ctx context.Context) (n int, err error) {
	for until := time.Now().Add(p.sizes.Patience); ; {
		n, err := p.service.(subject.ScheduleCounter).Schedules(ctx)
		if err != nil || n == p.sizes.RepeatSchedules {
			return n, err
		}
		if time.Now().After(until) {
			return n, fmt.Errorf("the service has %d schedules, not %d", n, p.sizes.RepeatSchedules)
		}
		if err := loop.SleepUntil(ctx, time.Now().Add(schedulesPoll)); err != nil {
			return n, err
		}
	}
}

// settle measures the memory of the schedules before their first occurrences.
func (p *repeatRun) settle(ctx context.Context) error {
	if err := loop.SleepUntil(ctx, time.Now().Add(p.sizes.Settle)); err != nil {
		return err
	}
	w, err := p.weigh(p.before)
	if err != nil {
		return err
	}
	p.set("rss", megabytes(w.largest))
	p.set("rss_all", megabytes(w.all))
	p.set("schedule", float64(w.growth)/float64(p.sizes.RepeatSchedules))
	return nil
}

// fire measures the occurrences that are due within Sizes.RepeatFor.
func (p *repeatRun) fire(ctx context.Context) error {
	stop, err := p.consume(ctx, p.sizes.Consumers, p.got)
	if err != nil {
		return err
	}
	err = p.fireAll(ctx)
	if err := cmp.Or(stop(), err); err != nil {
		return err
	}
	fires := p.ledger.punctuality(nil)
	p.setLatencies("late_", fires.lateness)
	p.setStrays(p.ledger, fires)
	first, last := p.ledger.span()
	p.set("arrived", float64(len(fires.lateness)))
	p.set("fired", perSecond(len(fires.lateness), last.Sub(first)))
	p.set("cpu_all", 100*float64(p.usage.ServiceCPU)/float64(p.usage.Elapsed))
	p.say("%d occurrences arrived in %v, %d of them early, %d came again, %d did not arrive", len(fires.lateness),
		last.Sub(first), fires.early, p.ledger.repeats.Load(), fires.lost)
	w, err := p.weigh(nil)
	if err != nil {
		return err
	}
	p.set("rss_fired", megabytes(w.largest))
	return nil
}

func (p *repeatRun) fireAll(ctx context.Context) error {
	ahead := time.Until(p.first)
	p.say("the first occurrence is due in %v", ahead)
	if ahead <= readBefore {
		return errLoadTooSlow
	}
	if err := loop.SleepUntil(ctx, p.first.Add(-readBefore)); err != nil {
		return err
	}
	stop := p.meter()
	defer stop()
	return p.ledger.wait(ctx, p.first.Add(p.sizes.RepeatFor+p.sizes.Patience))
}

// got records the arrival of an occurrence. It ignores other tasks.
func (p *repeatRun) got(id string, at time.Time) {
	schedule, digits, _ := strings.Cut(id, "@")
	i, ok := p.ledger.ids.index(schedule)
	number, err := strconv.Atoi(digits)
	if ok && err == nil && number > 0 && i < p.sizes.RepeatSchedules {
		p.ledger.arrive((number-1)*p.sizes.RepeatSchedules+i, at)
	}
}

// errNoOccurrence means that no occurrence arrived after the restart.
var errNoOccurrence = errors.New("no occurrence arrived after the restart")

// restart kills the service and starts it again. It measures the time until all processes are ready, and until the
// first occurrence arrives.
func (p *repeatRun) restart(ctx context.Context) error {
	p.closeCallers()
	killer := p.service.(subject.Killer)
	if err := killer.KillAll(); err != nil {
		return fmt.Errorf("killing all: %w", err)
	}
	began := time.Now()
	if err := killer.Restart(ctx); err != nil {
		return fmt.Errorf("starting again: %w", err)
	}
	arrived := make(chan time.Time, 1)
	var once sync.Once
	stop := p.consumeThrough(ctx, p.sizes.Consumers, func(_ string, at time.Time) {
		once.Do(func() { arrived <- at })
	})
	defer stop()
	if err := p.service.(subject.ReadyAwaiter).AwaitReady(ctx); err != nil {
		return fmt.Errorf("awaiting the restarted service: %w", err)
	}
	p.set("ready", milliseconds(time.Since(began)))
	kept, err := p.await(ctx)
	if err != nil {
		return fmt.Errorf("after the restart: %w", err)
	}
	p.set("kept", float64(kept))
	limit := time.NewTimer(p.sizes.Patience)
	defer limit.Stop()
	select {
	case at := <-arrived:
		p.set("first", milliseconds(at.Sub(began)))
		return nil
	case <-limit.C:
		return errNoOccurrence
	case <-ctx.Done():
		return ctx.Err()
	}
}
