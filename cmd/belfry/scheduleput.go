package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// scheduleFlags describe a schedule on the command line.
type scheduleFlags struct {
	repeat           repeatFlags
	task             taskFlags
	misfire, overlap string
	window           string
	note             string
	paused           bool
}

func newSchedulePut() *cobra.Command {
	var caller caller
	var f scheduleFlags
	var key string
	var absent bool
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			schedule, err := f.schedule(args[0], cmd.InOrStdin())
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			kept, err := conn.PutSchedule(cmd.Context(), schedule, scheduleOptions(key, absent)...)
			if there := existingSchedule(err); absent && there != nil {
				cmd.PrintErrf("schedule %s is there already (%s): nothing was changed\n", there.ID, scheduleState(there))
				kept, err = there, nil
			}
			if err != nil {
				return err
			}
			warnWithoutReceiver(cmd, conn, &kept.Task)
			return caller.showStored(cmd, conn, kept)
		},
	}
	caller.addFlags(cmd)
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&key, "key", "k", "", keyUsage)
	flags.BoolVar(&absent, "if-absent", false, "only if there is no such schedule")
	return cmd
}

// existingSchedule returns the schedule that kept a call from creating one. It is nil if err carries none.
func existingSchedule(err error) *client.Schedule {
	var refusal *client.Error
	if errors.Is(err, client.ErrPrecondition) && errors.As(err, &refusal) {
		return refusal.Schedule
	}
	return nil
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

// shownNext is the number of coming occurrences that a put shows.
const shownNext = 3

// showStored prints a stored schedule, and for people its coming occurrences too.
func (c *caller) showStored(cmd *cobra.Command, conn *client.Client, s *client.Schedule) error {
	var coming []client.NextOccurrence
	if c.output.IsTable() {
		coming = comingOf(cmd, conn, s)
	}
	return c.show(cmd, s, func(t *output.Table) {
		fillSchedule(t, s)
		for _, o := range coming {
			t.Field("next", comingNote(&o))
		}
	})
}

// comingOf returns the coming occurrences of a stored schedule. A failure is a note only: the schedule is stored.
func comingOf(cmd *cobra.Command, conn *client.Client, s *client.Schedule) []client.NextOccurrence {
	found, err := conn.Occurrences(cmd.Context(), s.ID, shownNext, 0)
	if err != nil {
		cmd.PrintErrf("the schedule is stored; its coming occurrences are not known: %v\n", err)
		return nil
	}
	return found.Next
}
