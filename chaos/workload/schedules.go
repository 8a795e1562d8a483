package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// scheduleConfig describes the schedules of the load. Their intervals are short, so that faults meet many occurrences.
func (l *Load) scheduleConfig() load.ScheduleConfig {
	short := func(rng *rand.Rand) time.Duration { return load.Between(rng, minEvery, maxEvery) }
	return load.ScheduleConfig{
		Driver: driver{l}, Recorder: l.cfg.Recorder, Seed: l.cfg.Seed, Namespace: l.cfg.Namespace,
		Prefix: l.cfg.Prefix + "s-", Count: l.cfg.Schedules, Begin: short, Every: short, Pause: short, Hold: maxHold,
		RetryFor: l.cfg.RetryFor, MaxPause: maxPause,
	}
}

// The shortest and the longest interval of a schedule.
const (
	minEvery = 200 * time.Millisecond
	maxEvery = 2 * time.Second
)

// Repeat makes schedules and changes them until stop is closed or ctx ends. It then pauses them, so that they come to
// rest. An error means that one could not be paused. CountSchedules must follow.
func (l *Load) Repeat(ctx context.Context, stop <-chan struct{}) error {
	l.repeated.Run(ctx, stop)
	return l.repeated.End(ctx)
}

// Steady makes a schedule that is not changed and runs all missed occurrences, until stop is closed or ctx ends. It
// then pauses the schedule. The schedule is in one of the last slots, so that a move of the upper half of its shard's
// slots takes it along. Beside it is a schedule that ends by its count. CountSchedules must follow.
func (l *Load) Steady(ctx context.Context, every time.Duration, stop <-chan struct{}) error {
	cfg := l.scheduleConfig()
	cfg.Count, cfg.Steady, cfg.Prefix = 2, true, l.steadyPrefix()
	cfg.Begin = func(*rand.Rand) time.Duration { return 0 }
	cfg.Every = func(*rand.Rand) time.Duration { return every }
	l.steady = load.NewSchedules(cfg)
	l.steady.Run(ctx, stop)
	waitFor(ctx, stop)
	return l.steady.End(ctx)
}

// waitFor waits until stop is closed or ctx ends.
func waitFor(ctx context.Context, stop <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-stop:
	}
}

// ShardOfSteady returns the shard of the steady schedule, through any node.
func (l *Load) ShardOfSteady(ctx context.Context) (uint32, error) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	for {
		node := l.anyNode(rng)
		s, err := l.caller.clients[node].GetSchedule(ctx, l.steadyPrefix()+"0")
		if err == nil {
			return s.Shard, nil
		}
		if !wait.For(ctx, maxPause) {
			return 0, err
		}
	}
}

// lastSlots is the number of slots from which the steady schedule's is.
const lastSlots = 64

// steadyPrefix returns the id of the steady schedule without the number 0 at its end.
func (l *Load) steadyPrefix() string {
	for n := 0; ; n++ {
		prefix := fmt.Sprintf("%ssteady-%d-", l.cfg.Prefix, n)
		if history.SlotIn(l.cfg.Namespace, prefix+"0") >= history.Slots-lastSlots {
			return prefix
		}
	}
}

// CountSchedules ends a run, when the cluster is whole and at rest. It reads each schedule that Repeat and Steady made,
// and each of its occurrences that never arrived. An error means that a read got no final answer.
func (l *Load) CountSchedules(ctx context.Context) error {
	if l.steady == nil {
		return l.repeated.Count(ctx)
	}
	return errors.Join(l.repeated.Count(ctx), l.steady.Count(ctx))
}

// TrySchedule tries an operation about a schedule once, through a random node.
func (d driver) TrySchedule(ctx context.Context, rng *rand.Rand, op load.ScheduleOperation) (
	history.Outcome, history.Answer) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout(rng))
	defer cancel()
	ctx, sent := countSends(ctx)
	err := d.caller.sendAbout(ctx, d.caller.clients[d.anyNode(rng)], op)
	answer := history.Answer{}
	outcome := judge(&answer, err, int(sent.Load()))
	return outcome, answer
}

// sendAbout makes one request about a schedule.
func (c *caller) sendAbout(ctx context.Context, to *client.Client, op load.ScheduleOperation) (err error) {
	id, key := op.What.ID, client.WithKey(c.key(op.What.Op))
	switch op.What.Kind {
	case history.PutSchedule:
		_, err = to.PutSchedule(ctx, c.schedule(op), key)
	case history.PauseSchedule:
		_, err = to.PauseSchedule(ctx, id, "", key)
	case history.ResumeSchedule:
		_, err = to.ResumeSchedule(ctx, id, "", key)
	case history.FireSchedule:
		_, err = to.FireSchedule(ctx, id, key)
	case history.SkipNext:
		_, err = to.SkipOccurrence(ctx, id, key)
	case history.BackfillPast:
		_, err = to.Backfill(ctx, id, op.What.From.Time(), op.What.To.Time(), key)
	case history.DeleteSchedule:
		err = to.DeleteSchedule(ctx, id, key)
	default:
		return fmt.Errorf("there is no call %q about a schedule", op.What.Kind)
	}
	return err
}

func (c *caller) schedule(op load.ScheduleOperation) client.Schedule {
	s := client.Schedule{
		ID: op.What.ID, Overlap: client.Overlap(op.What.Overlap), Misfire: client.Misfire(op.What.Misfire),
		Repeat: client.Repeat{Every: op.Rule.Every, TimeZone: op.Rule.TimeZone, Count: op.Rule.Count},
		Task: client.Task{
			Queue: op.Queue, Payload: op.Body, Retry: &client.Retry{MinBackoff: minBackoff, MaxBackoff: maxBackoff},
		},
	}
	if op.Rule.Cron != "" {
		s.Repeat.Cron = []string{op.Rule.Cron}
	}
	if op.Queue == "" {
		s.Task.Target = &client.Target{URL: c.target}
	}
	return s
}

// ReadSchedule reads a schedule through a random node.
func (d driver) ReadSchedule(ctx context.Context, rng *rand.Rand, id string) (history.Tally, error) {
	ctx, cancel := context.WithTimeout(ctx, finalTimeout)
	defer cancel()
	s, err := d.caller.clients[d.anyNode(rng)].GetSchedule(ctx, id)
	switch {
	case isAbsent(err):
		return history.Tally{Absent: true}, nil
	case err != nil:
		return history.Tally{}, err
	}
	return history.Tally{
		Every: s.Repeat.Every, Anchor: history.At(s.Repeat.Anchor), Last: s.Last, Started: s.Started, Passed: s.Passed,
		Running: s.Running, Waiting: s.Waiting,
	}, nil
}

// HasTask reads a task through a random node.
func (d driver) HasTask(ctx context.Context, rng *rand.Rand, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, finalTimeout)
	defer cancel()
	_, err := d.caller.clients[d.anyNode(rng)].Get(ctx, id)
	if isAbsent(err) {
		return false, nil
	}
	return err == nil, err
}

func isAbsent(err error) bool {
	var refusal *client.Error
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}
