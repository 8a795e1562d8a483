package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newScheduleShow() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a schedule, and its occurrences under way",
		Example: `  belfry schedule show report
  belfry schedule show report --json | jq .next_at`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return caller.scheduleCall(cmd, func(conn *client.Client) (*client.Schedule, error) {
				return conn.GetSchedule(cmd.Context(), args[0])
			})
		},
	}
	caller.addFlags(cmd)
	return cmd
}

// scheduleCall makes a call and prints the schedule that it returns.
func (c *caller) scheduleCall(cmd *cobra.Command, call func(*client.Client) (*client.Schedule, error)) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	s, err := call(conn)
	if err != nil {
		return err
	}
	return c.show(cmd, s, func(t *output.Table) { fillSchedule(t, s) })
}

func newScheduleDelete() *cobra.Command {
	var caller caller
	var asking asking
	var key string
	cmd := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a schedule; its occurrences under way go on",
		Example: `  belfry schedule delete report
  belfry schedule delete report --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			err = askAbout(&asking, cmd, args[0], conn.GetSchedule, scheduleQuestion)
			if err != nil {
				return err
			}
			if err := conn.DeleteSchedule(cmd.Context(), args[0], keyOption(key)...); err != nil {
				return err
			}
			return caller.show(cmd, map[string]string{"deleted": args[0]}, func(t *output.Table) {
				t.Row("%s is deleted", args[0])
			})
		},
	}
	caller.addFlags(cmd)
	asking.addFlags(cmd)
	cmd.Flags().StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

// scheduleQuestion asks about the end of a schedule, with the number of its occurrences.
func scheduleQuestion(s *client.Schedule) confirm.Question {
	return confirm.Question{
		Effect: fmt.Sprintf("deletes schedule %s after %s, with %s that will not begin", s.ID,
			numberOfThings(int64(s.Last), "occurrence"), numberOfThings(int64(len(s.Waiting)), "waiting occurrence")),
		Kind: "schedule", Name: s.ID,
	}
}

func newSchedulePause() *cobra.Command {
	return newNotedCall(&cobra.Command{
		Use:     "pause ID",
		Short:   "Pause a schedule: occurrences under way go on, and none begins",
		Example: `  belfry schedule pause report --note "until the migration ends"`,
	}, (*client.Client).PauseSchedule)
}

func newScheduleResume() *cobra.Command {
	return newNotedCall(&cobra.Command{
		Use:   "resume ID",
		Short: "End a schedule's pause; its rule goes on from now",
		Long: `End a schedule's pause. Its rule goes on from now, and belfry schedule backfill
makes the occurrences of the pause.`,
		Example: `  belfry schedule resume report
  belfry schedule resume report --note "the migration has ended"`,
	}, (*client.Client).ResumeSchedule)
}

// newNotedCall completes a command that takes the id of a schedule and a note, and prints the schedule.
func newNotedCall(cmd *cobra.Command,
	call func(*client.Client, context.Context, string, string, ...client.Option) (*client.Schedule, error),
) *cobra.Command {
	var note string
	newScheduleCall(cmd, func(conn *client.Client, ctx context.Context, id string, opts ...client.Option,
	) (*client.Schedule, error) {
		return call(conn, ctx, id, note, opts...)
	})
	cmd.Flags().StringVar(&note, "note", "", noteUsage)
	return cmd
}

// newScheduleCall completes a command that takes the id of a schedule and prints the schedule.
func newScheduleCall(cmd *cobra.Command,
	call func(*client.Client, context.Context, string, ...client.Option) (*client.Schedule, error)) *cobra.Command {
	var caller caller
	var key string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return caller.scheduleCall(cmd, func(conn *client.Client) (*client.Schedule, error) {
			return call(conn, cmd.Context(), args[0], keyOption(key)...)
		})
	}
	caller.addFlags(cmd)
	cmd.Flags().StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

func newScheduleSkip() *cobra.Command {
	return newScheduleCall(&cobra.Command{
		Use:     "skip ID",
		Short:   "Pass over the next occurrence of a schedule's rule",
		Example: `  belfry schedule skip report`,
	}, (*client.Client).SkipOccurrence)
}

func newScheduleFire() *cobra.Command {
	var caller caller
	var key string
	cmd := &cobra.Command{
		Use:   "fire ID",
		Short: "Make an occurrence of a schedule now, beside those of its rule",
		Long: `Make an occurrence of a schedule now, beside those of its rule. While an earlier
one runs, the schedule's --overlap decides: the new one may have to wait, and if
it would not run, the call is refused.`,
		Example: `  belfry schedule fire report
  belfry task get "$(belfry schedule fire report --json | jq -r .id)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			fired, err := conn.FireSchedule(cmd.Context(), args[0], keyOption(key)...)
			if err != nil {
				return err
			}
			return caller.show(cmd, fired, func(t *output.Table) {
				t.Field("occurrence", fired.ID)
				fillSchedule(t, &fired.Schedule)
			})
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

func newScheduleBackfill() *cobra.Command {
	var from, to string
	var times cli.Times
	cmd := &cobra.Command{
		Use:   "backfill ID",
		Short: "Make the occurrences of a range of the past",
		Long: `Make the occurrences that the rule names from one instant to another, both
included, even if they ran already. They run one after the other, or all at once
under --overlap allow: 1000 at most.`,
		Example: `  belfry schedule backfill report --from "2026-11-20 00:00" --to now`,
	}
	newScheduleCall(cmd, func(conn *client.Client, ctx context.Context, id string, opts ...client.Option,
	) (*client.Schedule, error) {
		first, last, err := parseRange(&times, from, to)
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return conn.Backfill(ctx, id, first, last, opts...)
	})
	times.AddFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "first `instant` of the range")
	cmd.Flags().StringVar(&to, "to", "", "last `instant` of the range")
	return cmd
}

// parseRange reads --from and --to, which are both required.
func parseRange(times *cli.Times, from, to string) (first, last time.Time, err error) {
	if from == "" || to == "" {
		return first, last, errors.New("give both --from and --to")
	}
	return first, last, errors.Join(times.At(&first, "from", from), times.At(&last, "to", to))
}

func newScheduleList() *cobra.Command {
	var caller caller
	filter := client.ScheduleFilter{Order: client.ByDue}
	var labels []string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules, by their next run",
		Example: `  belfry schedule list --queue reports
  belfry schedule list --limit 0 --json | jq -r 'select(.paused) | .id'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := completeFilter(&filter, labels, limit); err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			return listSchedules(cmd, conn, filter, limit, &caller.output)
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&filter.Queue, "queue", "q", "", "only those whose tasks go to this `queue`")
	flags.BoolVar(&filter.Payload, "payload", false, "with payloads (in --json)")
	flags.StringVar(&filter.Prefix, "prefix", "", "only those whose id begins with this `text`")
	flags.StringArrayVarP(&labels, "label", "l", nil,
		"only those whose tasks have this `label`, as in tenant=acme or tenant:acme; repeatable")
	flags.IntVarP(&limit, "limit", "n", 100, "list at most this many schedules; 0: all")
	return cmd
}

func completeFilter(filter *client.ScheduleFilter, labels []string, limit int) error {
	if limit < 0 {
		return errors.New("--limit is negative")
	}
	filter.PageSize = maxPage
	if limit > 0 {
		filter.PageSize = min(limit, maxPage)
	}
	return cli.Labels(&filter.Labels, labels)
}

// listSchedules prints schedules as it reads them.
func listSchedules(
	cmd *cobra.Command, conn *client.Client, filter client.ScheduleFilter, limit int, form *output.Flags,
) error {
	shown := output.NewStream(cmd.OutOrStdout(), form, addScheduleColumns, addSchedule)
	for s, err := range conn.Schedules(cmd.Context(), filter) {
		if err != nil {
			return errors.Join(err, shown.Flush())
		}
		if err := shown.Add(s); err != nil {
			return err
		}
		if shown.Len() == limit {
			break
		}
	}
	if shown.Len() == 0 {
		cmd.PrintErrln("no schedule was found")
	}
	return shown.Flush()
}

func addScheduleColumns(t *output.Table) {
	t.Columns("ID", "STATE", "NEXT", "RULE", "RUNNING", "WAITING", "QUEUE").
		Fit("NEXT", "RULE", "ID").
		Wide("LAST", "OVERLAP", "MISFIRE", "CALENDAR", "TARGET", "SHARD", "REVISION", "NOTE").Add()
}

func addSchedule(t *output.Table, s *client.Schedule) {
	target := ""
	if s.Task.Target != nil {
		target = s.Task.Target.URL
	}
	t.Cells(s.ID, scheduleState(s), t.Instant(s.NextAt), rule(&s.Repeat), len(s.Running), len(s.Waiting),
		s.Task.Queue, s.Last, s.Overlap, misfire(s), s.Repeat.Calendar, target, s.Shard, s.Revision, s.Note)
}
