package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newSchedule() *cobra.Command {
	return cli.Group(&cobra.Command{
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

func newSchedulePut() *cobra.Command {
	var f scheduleFlags
	var absent bool
	cmd := withKeyFlag(cli.PlainVerb(&cobra.Command{
		Use:   "put ID",
		Short: "Make a schedule, or replace all its settings",
		Long: `Make a schedule, or replace all settings of one that is there: a flag that is
not given has its default. The numbers of its occurrences go on, and those under
way are left alone.

A rule has either --every or one --cron or more. It fires at the instants of
each --cron. Each occurrence is a task like the given one.

--misfire chooses the occurrences that run after an outage: the latest one, all,
or none (skip). --overlap is about an occurrence that comes due while an earlier
one still runs: it does not run (skip), waits unless another one does
(queue_one), waits (queue_all), runs too (allow), or has the earlier one
cancelled (cancel_previous).`,
		Example: `  belfry schedule put report --cron "0 9 * * MON-FRI" --zone Europe/Berlin \
    --url https://shop.example/report --payload '{"kind": "daily"}'
  belfry schedule put poll --every 15m --jitter 1m -q polls --if-absent`,
	}, func(c *cli.Call) error {
		schedule, err := f.schedule(c.Args[0], c.In())
		if err != nil {
			return cli.WrongUsage(err)
		}
		kept, err := c.Client.PutSchedule(c.Context(), schedule, scheduleOptions(c, absent)...)
		if refusal := refusalOf(err); absent && refusal.Schedule != nil {
			kept, err = refusal.Schedule, nil
			c.Note("schedule %s is there already (%s): nothing was changed", kept.ID, scheduleState(kept))
		}
		if err != nil {
			return err
		}
		warnWithoutReceiver(c, &kept.Task)
		return showStored(c, kept)
	}))
	f.addFlags(cmd)
	cmd.Flags().BoolVar(&absent, "if-absent", false, "only if there is no such schedule")
	return cmd
}

func newSchedulePatch() *cobra.Command {
	var f scheduleFlags
	var cleared []string
	cmd := withKeyFlag(cli.PlainVerb(&cobra.Command{
		Use:   "patch ID",
		Short: "Change some settings of a schedule",
		Long: `Change the given settings of a schedule. The others stay as they are.

Headers and labels are merged with those of the task; one without a value is
removed, as in --label tenant=. --clear sets a field back to its default: note,
repeat.end, repeat.calendar, task.target, task.retry.max_attempts and so on. To
change from --every to --cron, give --clear repeat.every, too.`,
		Example: `  belfry schedule patch report --cron "30 9 * * MON-FRI" --note later
  belfry schedule patch report --paused=false --clear note`,
	}, func(c *cli.Call) error {
		patch, err := f.patch(c, cleared)
		if err != nil {
			return cli.WrongUsage(err)
		}
		kept, err := c.Client.PatchSchedule(c.Context(), c.Args[0], patch, keyOption(c)...)
		if err != nil {
			return err
		}
		return showStored(c, kept)
	}))
	f.addFlags(cmd)
	cmd.Flags().StringSliceVar(&cleared, "clear", nil, "`fields` to set back to their defaults; repeatable")
	return cmd
}

// shownNext is the number of coming occurrences that a put shows.
const shownNext = 3

// showStored prints a stored schedule, and for people its coming occurrences too. That these are not known is a note
// only: the schedule is stored.
func showStored(c *cli.Call, s *client.Schedule) error {
	coming := new(client.Occurrences)
	if c.Out.IsTable() {
		found, err := c.Client.Occurrences(c.Context(), s.ID, shownNext, 0)
		if err != nil {
			c.Note("the schedule is stored; its coming occurrences are not known: %v", err)
		} else {
			coming = found
		}
	}
	return output.Show(c.Out, s, func(t *output.Table, s *client.Schedule) {
		fillSchedule(t, s)
		for i := range coming.Next {
			t.Field("next", comingNote(&coming.Next[i]))
		}
	})
}

func newScheduleShow() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "show ID",
		Short: "Show a schedule, and its occurrences under way",
		Example: `  belfry schedule show report
  belfry schedule show report --json | jq .next_at`,
	}, func(c *cli.Call) (*client.Schedule, error) {
		return c.Client.GetSchedule(c.Context(), c.Args[0])
	}, fillSchedule)
}

func newScheduleDelete() *cobra.Command {
	return withKeyFlag(cli.Asking(cli.Verb(&cobra.Command{
		Use:   "delete ID",
		Short: "Delete a schedule; its occurrences under way go on",
		Example: `  belfry schedule delete report
  belfry schedule delete report --yes`,
	}, func(c *cli.Call) (map[string]string, error) {
		err := cli.AskAbout(c, c.Client.GetSchedule, scheduleQuestion)
		if err == nil {
			err = c.Client.DeleteSchedule(c.Context(), c.Args[0], keyOption(c)...)
		}
		return map[string]string{"deleted": c.Args[0]}, err
	}, func(t *output.Table, answer map[string]string) { t.Row("%s is deleted", answer["deleted"]) })))
}

// scheduleQuestion asks about the end of a schedule, with the number of its occurrences.
func scheduleQuestion(s *client.Schedule) cli.Question {
	return cli.Question{
		Effect: "deletes schedule " + s.ID + " after " + output.Many(s.Last, "occurrence") + ", with " +
			output.Many(len(s.Waiting), "waiting occurrence") + " that will not begin",
		Kind: "schedule", Name: s.ID,
	}
}

func newSchedulePause() *cobra.Command {
	return newNotedVerb(&cobra.Command{
		Use:     "pause ID",
		Short:   "Pause a schedule: occurrences under way go on, and none begins",
		Example: `  belfry schedule pause report --note "until the migration ends"`,
	}, (*client.Client).PauseSchedule)
}

func newScheduleResume() *cobra.Command {
	return newNotedVerb(&cobra.Command{
		Use:   "resume ID",
		Short: "End a schedule's pause; its rule goes on from now",
		Long: `End a schedule's pause. Its rule goes on from now, and belfry schedule backfill
makes the occurrences of the pause.`,
		Example: `  belfry schedule resume report
  belfry schedule resume report --note "the migration has ended"`,
	}, (*client.Client).ResumeSchedule)
}

// newNotedVerb completes a command that takes the id of a schedule and a note, and prints the schedule.
func newNotedVerb(cmd *cobra.Command,
	call func(*client.Client, context.Context, string, string, ...client.Option) (*client.Schedule, error),
) *cobra.Command {
	var note string
	cmd = withKeyFlag(cli.Verb(cmd, func(c *cli.Call) (*client.Schedule, error) {
		return call(c.Client, c.Context(), c.Args[0], note, keyOption(c)...)
	}, fillSchedule))
	cmd.Flags().StringVar(&note, "note", "", noteUsage)
	return cmd
}

func newScheduleSkip() *cobra.Command {
	return withKeyFlag(cli.Verb(&cobra.Command{
		Use:     "skip ID",
		Short:   "Pass over the next occurrence of a schedule's rule",
		Example: `  belfry schedule skip report`,
	}, func(c *cli.Call) (*client.Schedule, error) {
		return c.Client.SkipOccurrence(c.Context(), c.Args[0], keyOption(c)...)
	}, fillSchedule))
}

func newScheduleFire() *cobra.Command {
	return withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "fire ID",
		Short: "Make an occurrence of a schedule now, beside those of its rule",
		Long: `Make an occurrence of a schedule now, beside those of its rule. While an earlier
one runs, the schedule's --overlap decides: the new one may have to wait, and if
it would not run, the call is refused.`,
		Example: `  belfry schedule fire report
  belfry task get "$(belfry schedule fire report --json | jq -r .id)"`,
	}, func(c *cli.Call) (*client.FiredOccurrence, error) {
		return c.Client.FireSchedule(c.Context(), c.Args[0], keyOption(c)...)
	}, func(t *output.Table, fired *client.FiredOccurrence) {
		t.Field("occurrence", fired.ID)
		fillSchedule(t, &fired.Schedule)
	}))
}

func newScheduleBackfill() *cobra.Command {
	var from, to string
	var times cli.Times
	cmd := withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "backfill ID",
		Short: "Make the occurrences of a range of the past",
		Long: `Make the occurrences that the rule names from one instant to another, both
included, even if they ran already. They run one after the other, or all at once
under --overlap allow: 1000 at most.`,
		Example: `  belfry schedule backfill report --from "2026-11-20 00:00" --to now`,
	}, func(c *cli.Call) (*client.Schedule, error) {
		if from == "" || to == "" {
			return nil, cli.WrongUsage(errors.New("give both --from and --to"))
		}
		var first, last time.Time
		if err := errors.Join(times.At(&first, "from", from), times.At(&last, "to", to)); err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.Backfill(c.Context(), c.Args[0], first, last, keyOption(c)...)
	}, fillSchedule))
	times.AddFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "first `instant` of the range")
	cmd.Flags().StringVar(&to, "to", "", "last `instant` of the range")
	return cmd
}

func newScheduleList() *cobra.Command {
	var filter client.ScheduleFilter
	var labels []string
	var limit int
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "list",
		Short: "List schedules, by their next run or by id",
		Example: `  belfry schedule list --queue reports
  belfry schedule list --limit 0 --json | jq -r 'select(.paused) | .id'`,
	}, func(c *cli.Call) (err error) {
		if filter.PageSize, err = pageSize(limit); err == nil {
			err = cli.Labels(&filter.Labels, labels)
		}
		if err != nil {
			return cli.WrongUsage(err)
		}
		n, err := output.Stream(c.Out, c.Client.Schedules(c.Context(), filter), limit, addScheduleColumns, addSchedule)
		if err == nil && n == 0 {
			c.Note("no schedule was found")
		}
		return err
	})
	flags := cmd.Flags()
	flags.StringVarP(&filter.Queue, "queue", "q", "", "only those whose tasks go to this `queue`")
	flags.StringVar((*string)(&filter.Order), "order", string(client.ByDue),
		"`order` of the list: due, which is by the next run, or id")
	flags.BoolVar(&filter.Payload, "payload", false, "with payloads (in --json)")
	flags.StringVar(&filter.Prefix, "prefix", "", "only those whose id begins with this `text`")
	flags.StringArrayVarP(&labels, "label", "l", nil,
		"only those whose tasks have this `label`, as in tenant=acme or tenant:acme; repeatable")
	flags.IntVarP(&limit, "limit", "n", 100, "list at most this many schedules; 0: all")
	cli.CompleteWords(cmd, "order", string(client.ByID), string(client.ByDue))
	return cmd
}

func newScheduleOccurrences() *cobra.Command {
	var next, last int
	cmd := cli.Verb(&cobra.Command{
		Use:   "occurrences ID",
		Short: "Show the last and coming occurrences, and why some did not run",
		Example: `  belfry schedule occurrences report --last 20 --next 3
  belfry schedule occurrences report --json | jq '.last[] | select(.why)'`,
	}, func(c *cli.Call) (*client.Occurrences, error) {
		return c.Client.Occurrences(c.Context(), c.Args[0], next, last)
	}, fillOccurrences)
	cmd.Flags().IntVar(&next, "next", 10, "`number` of coming occurrences to show, 100 at most")
	cmd.Flags().IntVar(&last, "last", 10, "`number` of the last occurrences to show, 100 at most")
	return cmd
}

func newSchedulePreview() *cobra.Command {
	var f repeatFlags
	var next int
	cmd := cli.Verb(&cobra.Command{
		Use:   "preview",
		Short: "Show the next occurrences of a rule; nothing is kept",
		Long: `Show the next occurrences of a rule, with the effects of clock changes and
exclusions. Nothing is kept.

A rule has either --every or one --cron or more. It fires at the instants of
each --cron.`,
		Example: `  belfry schedule preview --cron "0 9 * * MON-FRI" --zone Europe/Berlin
  belfry schedule preview --cron "0 9 L * *" --except 2026-12-31 --next 5
  belfry schedule preview --every 15m --anchor 2026-11-21T10:05:00Z`,
	}, func(c *cli.Call) (*client.SchedulePreview, error) {
		if err := f.parse(); err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.PreviewSchedule(c.Context(), f.rule, next)
	}, fillPreview)
	f.addFlags(cmd)
	cmd.Flags().IntVar(&next, "next", 0, "`number` of occurrences to show, 1000 at most (default: 20)")
	return cmd
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

func (f *repeatFlags) parse() error {
	f.times.Prefer(f.rule.TimeZone)
	return errors.Join(cli.ParseInto(&f.rule.Every, "every", f.every), f.times.At(&f.rule.Anchor, "anchor", f.anchor),
		f.times.At(&f.rule.Start, "start", f.start), f.times.At(&f.rule.End, "end", f.end),
		cli.ParseInto(&f.rule.Jitter, "jitter", f.jitter))
}

// scheduleFlags describe a schedule on the command line.
type scheduleFlags struct {
	repeat           repeatFlags
	task             taskFlags
	misfire, overlap string
	window           string
	note             string
	paused           bool
}

func (f *scheduleFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.repeat.addFlags(cmd)
	flags.StringVar(&f.repeat.jitter, "jitter", "",
		"begin each occurrence up to this `duration` after its instant")
	f.task.addTemplate(flags)
	f.addPolicy(flags)
	cli.CompleteWords(cmd, "misfire", string(client.MisfireLatest), string(client.MisfireAll), string(client.MisfireSkip))
	cli.CompleteWords(cmd, "overlap", string(client.OverlapSkip), string(client.OverlapQueueOne),
		string(client.OverlapQueueAll), string(client.OverlapAllow), string(client.OverlapCancelPrevious))
}

func (f *scheduleFlags) addPolicy(flags *pflag.FlagSet) {
	flags.StringVar(&f.misfire, "misfire", "",
		"`choice` of missed occurrences that run: latest, all or skip (default latest)")
	flags.StringVar(&f.window, "misfire-window", "", "skip occurrences missed by more than this `duration`")
	flags.StringVar(&f.overlap, "overlap", "", "`choice` while an earlier one runs: skip, queue_one, queue_all, allow or "+
		"cancel_previous (default skip)")
	flags.BoolVar(&f.paused, "paused", false, "have no occurrences until belfry schedule resume")
	flags.StringVar(&f.note, "note", "", noteUsage)
}

const noteUsage = "`text` for people, 255 bytes at most (default: none)"

// schedule returns the schedule that the flags describe.
func (f *scheduleFlags) schedule(id string, stdin io.Reader) (client.Schedule, error) {
	s := client.Schedule{
		ID: id, Misfire: client.Misfire(f.misfire), Overlap: client.Overlap(f.overlap), Paused: f.paused, Note: f.note,
	}
	if (f.repeat.every == "") == (len(f.repeat.rule.Cron) == 0) {
		return s, errors.New("give the rule: either --every or one --cron or more")
	}
	task, err := f.task.task("", stdin)
	err = errors.Join(f.repeat.parse(), cli.ParseInto(&s.MisfireWindow, "misfire-window", f.window), err)
	s.Repeat, s.Task = f.repeat.rule, task
	return s, err
}

// repeatNames are the names of the flags of a rule.
var repeatNames = []string{
	"cron", "every", "anchor", "zone", "start", "end", "count", "except", "calendar", "jitter",
}

// patch returns the change that the given flags describe, which sets the cleared fields back.
func (f *scheduleFlags) patch(c *cli.Call, cleared []string) (client.SchedulePatch, error) {
	given := func(names []string) bool { return slices.ContainsFunc(names, c.Given) }
	p := client.SchedulePatch{
		Misfire: client.Misfire(f.misfire), Overlap: client.Overlap(f.overlap), Note: f.note, Clear: cleared,
	}
	templateNames, policyNames := flagNames(new(taskFlags).addTemplate), flagNames(new(scheduleFlags).addPolicy)
	if !given(repeatNames) && !given(policyNames) && !given(templateNames) && !c.Given("clear") {
		return p, errors.New("give what to change, as in --note; see belfry schedule patch --help")
	}
	setGiven(c.Given, &p.Paused, "paused", &f.paused)
	task, err := f.task.parse("", c.In())
	err = errors.Join(f.repeat.parse(), cli.ParseInto(&p.MisfireWindow, "misfire-window", f.window), err)
	if given(repeatNames) {
		p.Repeat = &f.repeat.rule
	}
	if given(templateNames) {
		if !given(targetNames) {
			task.Target = nil
		}
		if task.Retry.IsZero() {
			task.Retry = nil
		}
		p.Task = &task
	}
	return p, err
}
