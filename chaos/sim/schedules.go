package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/series"
)

const schedulePrefix = "s-" // of all ids of schedules

// newSchedules makes the schedules of a run. They begin close to a strike or a mending more often than not, and have
// random streams of their own. So a seed without schedules means the same run as before.
func (l *driver) newSchedules() *load.Schedules {
	p := l.world.cfg.pace
	return load.NewSchedules(load.ScheduleConfig{
		Driver: l, Recorder: l.world.rec, Seed: l.world.cfg.Seed, Prefix: schedulePrefix, Count: l.world.cfg.Schedules,
		Begin: func(rng *rand.Rand) time.Duration { return l.moment(rng) / 4 },
		Every: func(rng *rand.Rand) time.Duration { return load.Between(rng, p.maxDelay/60, p.maxDelay/4) },
		Pause: func(rng *rand.Rand) time.Duration { return load.Between(rng, p.maxDelay/60, p.maxDelay) },
		Crons: p.crons(), Queues: pushedQueues, Hold: 3 * time.Second,
		RetryFor: p.retryFor(), MaxPause: max(250*time.Millisecond, p.heartbeat/2),
	})
}

// crons returns rules with expressions that suit the pace.
func (p pace) crons() []load.Rule {
	if p.maxDelay < time.Hour {
		return []load.Rule{{Cron: "*/2 * * * *"}, {Cron: "*/10 * * * * *", TimeZone: "Asia/Kathmandu"}}
	}
	return []load.Rule{
		{Cron: "30 2 * * *", TimeZone: "Europe/Berlin"}, {Cron: "0 */3 * * *", TimeZone: "America/New_York"},
	}
}

// TrySchedule tries an operation about a schedule once, through a random node.
func (l *driver) TrySchedule(ctx context.Context, rng *rand.Rand, op load.ScheduleOperation) (
	history.Outcome, history.Answer) {
	cmds := []*fsmpb.Command{l.scheduleCommand(op)}
	return l.checkedAnswer(op.What.Op, l.send(ctx, l.anyNode(rng), l.patience(rng), cmds)[0])
}

func (l *driver) scheduleCommand(op load.ScheduleOperation) *fsmpb.Command {
	cmd := &fsmpb.Command{
		Id: task.SeriesID(op.What.ID), Key: &fsmpb.Key{Hash: uint64(op.What.Op), Call: uint64(op.What.Op)},
	}
	switch op.What.Kind {
	case history.PutSchedule:
		cmd.Op = &fsmpb.Command_SetSeries{SetSeries: l.setSeries(op)}
	case history.PauseSchedule, history.ResumeSchedule:
		pause := op.What.Kind == history.PauseSchedule
		cmd.Op = &fsmpb.Command_PauseSeries{PauseSeries: &fsmpb.PauseSeries{Paused: pause}}
	case history.FireSchedule:
		cmd.Op = &fsmpb.Command_StartOccurrence{StartOccurrence: &fsmpb.StartOccurrence{}}
	case history.SkipNext:
		cmd.Op = &fsmpb.Command_SkipOccurrence{SkipOccurrence: &fsmpb.SkipOccurrence{}}
	case history.BackfillPast:
		cmd.Op = &fsmpb.Command_Backfill{Backfill: &fsmpb.Backfill{ScheduledMs: l.instants(op)}}
	case history.DeleteSchedule:
		cmd.Op = &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}
	}
	return cmd
}

func (l *driver) setSeries(op load.ScheduleOperation) *fsmpb.SetSeries {
	spec := l.spec(load.Operation{Body: op.Body, Task: &load.Task{Queue: op.Queue}})
	return &fsmpb.SetSeries{
		Spec: spec, Series: &fsmpb.Series{
			Repeat: repeatOf(op.Rule), Overlap: overlapPolicies[op.What.Overlap], Misfire: misfirePolicies[op.What.Misfire],
		},
	}
}

func repeatOf(r load.Rule) *fsmpb.Repeat {
	repeat := &fsmpb.Repeat{EveryMs: r.Every.Milliseconds(), TimeZone: r.TimeZone, Count: r.Count}
	if r.Cron != "" {
		repeat.Cron = []string{r.Cron}
	}
	return repeat
}

var overlapPolicies = map[string]fsmpb.Overlap{
	"skip": fsmpb.Overlap_OVERLAP_SKIP, "queue_one": fsmpb.Overlap_OVERLAP_QUEUE_ONE,
	"queue_all": fsmpb.Overlap_OVERLAP_QUEUE_ALL, history.OverlapAllow: fsmpb.Overlap_OVERLAP_ALLOW,
	"cancel_previous": fsmpb.Overlap_OVERLAP_CANCEL_PREVIOUS,
}

var misfirePolicies = map[string]fsmpb.Misfire{
	"latest": fsmpb.Misfire_MISFIRE_LATEST, history.MisfireAll: fsmpb.Misfire_MISFIRE_ALL,
	"skip": fsmpb.Misfire_MISFIRE_SKIP,
}

// instants returns the instants that a backfill begins. Those of an interval count from the backfill's first instant: a
// node would read the anchor from the schedule.
func (l *driver) instants(op load.ScheduleOperation) (ms []int64) {
	repeat := repeatOf(op.Rule)
	if repeat.EveryMs > 0 {
		repeat.AnchorMs = proto.Int64(op.What.From.Time().UnixMilli())
	}
	rule, err := series.RuleOf(repeat, nil)
	if err != nil {
		l.world.problem("the rule of schedule %s: %v", op.What.ID, err)
		return nil
	}
	span, after := op.What.To.Time(), op.What.From.Time().Add(-time.Millisecond)
	for {
		next, err := rule.Span(after, span, 1)
		if err != nil || next.Count == 0 {
			return ms
		}
		ms, after = append(ms, next.First.UnixMilli()), next.First
	}
}

// ReadSchedule reads a schedule through a random node.
func (l *driver) ReadSchedule(ctx context.Context, rng *rand.Rand, id string) (history.Tally, error) {
	t, err := l.readThrough(ctx, rng, task.SeriesID(id))
	if err != nil || t == nil {
		return history.Tally{Absent: true}, err
	}
	s := t.Series
	tally := history.Tally{
		Every: time.Duration(s.Repeat.EveryMs) * time.Millisecond, Last: s.Last, Started: s.Started, Passed: s.Passed,
		Running: numbersOf(s.Live), Waiting: numbersOf(s.Queued),
	}
	if s.Repeat.AnchorMs != nil {
		tally.Anchor = instant(*s.Repeat.AnchorMs)
	}
	return tally, nil
}

func numbersOf(occurrences []*fsmpb.Occurrence) (numbers []uint64) {
	for _, o := range occurrences {
		numbers = append(numbers, o.Number)
	}
	return numbers
}

// HasTask reads a task through a random node.
func (l *driver) HasTask(ctx context.Context, rng *rand.Rand, id string) (bool, error) {
	t, err := l.readThrough(ctx, rng, id)
	return t != nil, err
}

// readThrough reads a task or a schedule linearizably through a random node. It returns nil if there is none.
func (l *driver) readThrough(ctx context.Context, rng *rand.Rand, id string) (*fsmpb.Task, error) {
	limit := l.world.cfg.pace.callTimeout()
	return ask(ctx, l.anyNode(rng), limit+time.Second, limit, func(ctx context.Context, p *process) (*fsmpb.Task, error) {
		return p.router.Get(ctx, "", id, false)
	})
}
