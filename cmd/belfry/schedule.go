package main

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newTaskSchedule() *cobra.Command {
	var caller caller
	var task taskFlags
	var key string
	var absent bool
	cmd := &cobra.Command{
		Use:   "schedule [ID]",
		Short: "Schedule a task, or replace the task of the same id",
		Long: `Schedule a task, or atomically replace the task of the same id.

Without an id the cluster makes one. Without --in and --at the task is due
at once.

A task that was delivered is scheduled, and delivered, again. With --if-absent
the task is scheduled once: if a task of that id exists, even a finished one,
nothing changes, the command prints that task, and the exit status is 0. This
holds as long as the task can be read: for the queue's keep_done after its end.`,
		Example: `  belfry task schedule order-1042-close --if-absent --in 30m \
    --url https://shop.example/close --payload '{"order": 1042}'
  belfry task schedule --at "tomorrow 9:00" -q reports -l tenant=acme`,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := task.task(optional(args), cmd.InOrStdin())
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				var kept client.Task
				opts := append(scheduleOptions(key, absent), client.ReturnTask(&kept))
				_, err := conn.Schedule(cmd.Context(), t, opts...)
				if there := existing(err); absent && there != nil {
					cmd.PrintErrf("task %s is there already (%s): nothing was changed\n", there.ID, there.State)
					return there, nil
				}
				if err == nil {
					warnWithoutReceiver(cmd, conn, &kept)
				}
				return &kept, err
			})
		},
	}
	caller.addFlags(cmd)
	task.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&key, "key", "k", "", "idempotency `key`: the same call again changes nothing, until two others "+
		"have changed the task or its tombstone is gone (default: a random one)")
	flags.BoolVar(&absent, "if-absent", false, "schedule once: only if there is no such task, finished or not")
	return cmd
}

// existing returns the task that kept a call from creating one. It is nil if err carries none.
func existing(err error) *client.Task {
	var refusal *client.Error
	if errors.Is(err, client.ErrPrecondition) && errors.As(err, &refusal) {
		return refusal.Task
	}
	return nil
}

// warnWithoutReceiver says on the standard error that a stored task has no receiver and its queue has no consumer, as
// when --url was forgotten or the name of the queue is mistyped. A caller who may not read queues gets no warning.
func warnWithoutReceiver(cmd *cobra.Command, conn *client.Client, task *client.Task) {
	if task.Target != nil {
		return
	}
	name := cmp.Or(task.Queue, "default")
	q, err := conn.Queue(cmd.Context(), name)
	if errors.Is(err, client.ErrNotFound) { // a schedule without an occurrence is no task
		q, err = &client.Queue{Name: name}, nil
	}
	if err != nil || q.Target != nil || q.Counts != nil && q.Counts.Leased > 0 {
		return
	}
	others := slices.DeleteFunc(queueNames(cmd.Context(), conn), func(other string) bool { return other == name })
	cmd.PrintErrf("note: no --url is given, and queue %s has no receiver and no consumer with a lease%s: the task "+
		"waits for a consumer, such as belfry lease take %[1]s\n", shellWord(name), cli.DidYouMean(name, others))
}

func scheduleOptions(key string, absent bool) []client.Option {
	opts := keyOption(key)
	if absent {
		opts = append(opts, client.IfAbsent())
	}
	return opts
}

func keyOption(key string) []client.Option {
	if key == "" {
		return nil
	}
	return []client.Option{client.WithKey(key)}
}

func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func newSchedule() *cobra.Command {
	return group(&cobra.Command{
		Use:   "schedule",
		Short: "Run tasks again and again, by rules that repeat",
		Long: `Run tasks again and again, by rules that repeat. Each occurrence of schedule
report is a task, with the ids report@1, report@2, …

A task that fires once is scheduled by belfry task schedule.`,
		Example: `  belfry schedule put report --cron "0 9 * * MON-FRI" --zone Europe/Berlin
  belfry schedule occurrences report`,
	}, newSchedulePut(), newSchedulePatch(), newScheduleShow(), newScheduleList(), newScheduleDelete(), newSchedulePause(),
		newScheduleResume(), newScheduleFire(), newScheduleSkip(), newScheduleBackfill(), newScheduleOccurrences(),
		newSchedulePreview())
}

// repeatFlags are a rule that repeats, as given.
type repeatFlags struct {
	rule                              client.Repeat
	every, anchor, start, end, jitter string
	times                             cli.Times
}

// addFlags adds the flags of a rule, except --jitter.
func (f *repeatFlags) addFlags(cmd *cobra.Command) {
	flags, rule := cmd.Flags(), &f.rule
	f.times.AddFlags(cmd)
	flags.Lookup("tz").Usage = "time `zone` of instants without one (default: that of --zone, else the machine's)"
	flags.StringArrayVar(&rule.Cron, "cron", nil, "cron `expression` of five or six fields; repeatable")
	flags.StringVar(&f.every, "every", "", "an `interval`, as in 15m")
	flags.StringVar(&f.anchor, "anchor", "", "an `instant` of --every (default: --start, else now)")
	flags.StringVar(&rule.TimeZone, "zone", "", "time `zone`, as in Europe/Berlin (default: UTC)")
	flags.StringVar(&f.start, "start", "", "first `instant` that may be an occurrence")
	flags.StringVar(&f.end, "end", "", "last `instant` that may be an occurrence")
	flags.Int64Var(&rule.Count, "count", 0, "most `occurrences`")
	flags.StringArrayVar(&rule.Except, "except", nil,
		"`date`, range of dates, instant or cron expression to leave out; repeatable")
	flags.StringVar(&rule.Calendar, "calendar", "", "`name` of a calendar: leave out its closed times")
}

func newSchedulePreview() *cobra.Command {
	var caller caller
	var f repeatFlags
	var next int
	cmd := &cobra.Command{
		Use:   "preview",
		Short: "Show the next occurrences of a rule; nothing is kept",
		Long: `Show the next occurrences of a rule, with the effects of clock changes and
exclusions. Nothing is kept.

A rule has either --every or one --cron or more. It fires at the instants of
each --cron.`,
		Example: `  belfry schedule preview --cron "0 9 * * MON-FRI" --zone Europe/Berlin
  belfry schedule preview --cron "0 9 L * *" --except 2026-12-31 --next 5
  belfry schedule preview --every 15m --anchor 2026-11-21T10:05:00Z`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parse(); err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			p, err := conn.PreviewSchedule(cmd.Context(), f.rule, next)
			if err != nil {
				return err
			}
			return caller.show(cmd, p, func(t *output.Table) { fillPreview(t, p) })
		},
	}
	caller.addFlags(cmd)
	f.addFlags(cmd)
	cmd.Flags().IntVar(&next, "next", 0, "`number` of occurrences to show, 1000 at most (default: 20)")
	return cmd
}

func (f *repeatFlags) parse() error {
	f.times.Prefer(f.rule.TimeZone)
	return errors.Join(cli.ParseInto(&f.rule.Every, "every", f.every), f.times.At(&f.rule.Anchor, "anchor", f.anchor),
		f.times.At(&f.rule.Start, "start", f.start), f.times.At(&f.rule.End, "end", f.end),
		cli.ParseInto(&f.rule.Jitter, "jitter", f.jitter))
}

// localFormat is the format of an instant with the offset of a rule's zone.
const localFormat = "Mon 2006-01-02 15:04:05.999 -07:00"

// fillPreview lists occurrences and exclusions in the order of their instants.
func fillPreview(t *output.Table, p *client.SchedulePreview) {
	excluded := p.Excluded
	leaveOut := func(before func(client.Exclusion) bool) {
		for len(excluded) > 0 && before(excluded[0]) {
			t.Row("%s\tleft out by %s", excluded[0].Local.Format(localFormat), excluded[0].Except)
			excluded = excluded[1:]
		}
	}
	for _, o := range p.Occurrences {
		leaveOut(func(x client.Exclusion) bool { return x.At.Before(o.At) })
		t.Row("%s\t%s", o.Local.Format(localFormat), clockNote(o.Change, o.Wall))
	}
	leaveOut(func(client.Exclusion) bool { return true })
	if p.Ended {
		t.Row("no further occurrence")
	}
	t.Row("%s, time zones of %s", p.TimeZone, p.TZData)
}

// clockNote describes the effect of a clock change on an occurrence. wall is the time that the rule names, or empty.
func clockNote(change client.ClockChange, wall string) string {
	switch change {
	case client.ChangeGap:
		_, clock, _ := strings.Cut(wall, "T")
		return "the clock skips " + cmp.Or(clock, "its time")
	case client.ChangeFirst:
		return "the first of two"
	case client.ChangeSecond:
		return "the second of two"
	}
	return string(change)
}
