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

func newDead() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dead",
		Short: "List, replay and drop dead letters",
		Long: `List, replay and drop a queue's dead letters: tasks whose attempts are used up,
whose receiver refused them, or that expired.`,
		Example: `  belfry dead list reports
  belfry dead replay reports --label tenant=acme`,
	}, newDeadList(), newDeadReplay(), newDeadDrop())
}

func newDeadList() *cobra.Command {
	var caller caller
	f := listFlags{states: []string{string(client.StateDead)}, order: client.ByDue}
	cmd := &cobra.Command{
		Use:   "list [QUEUE]",
		Short: "List the dead letters of a queue, or of all queues",
		Long:  "List the dead letters of a queue, or of all queues, the oldest death first.",
		Example: `  belfry dead list
  belfry dead list reports
  belfry dead list reports --limit 0 --json | jq -r .last_error | sort | uniq -c`,
		RunE: func(cmd *cobra.Command, args []string) error {
			nothing := "no dead letter was found"
			if len(args) == 1 {
				f.queue = args[0]
				nothing += " in queue " + f.queue
			}
			filter, err := f.filter()
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			shown := output.NewStream(cmd.OutOrStdout(), &caller.output, addDeadColumns, addDead)
			return runList(cmd, conn, filter, f.limit, shown, nothing)
		},
	}
	caller.addFlags(cmd)
	f.addFilterFlags(cmd, 100, "list at most this many; 0: all")
	return cmd
}

func addDeadColumns(t *output.Table) {
	t.Columns("ID", "QUEUE", "FIRE AT", "LAST ATTEMPT", "ATTEMPTS", "LAST ERROR").
		Fit("FIRE AT", "LAST ATTEMPT", "ID", "LAST ERROR").
		Wide("TARGET", "GROUP", "LABELS", "SHARD", "REVISION").Add()
}

func addDead(t *output.Table, task *client.Task) {
	target := ""
	if task.Target != nil {
		target = task.Target.URL
	}
	var ended time.Time
	if n := len(task.History); n > 0 {
		ended = task.History[n-1].EndedAt
	}
	t.Cells(task.ID, task.Queue, t.Instant(task.FireAt), t.Instant(ended), task.Attempts, task.LastError, target,
		task.Group, labels(task.Labels), task.Shard, task.Revision)
}

func newDeadReplay() *cobra.Command {
	cmd, _ := newDeadCall(&cobra.Command{
		Use:   "replay QUEUE [ID...]",
		Short: "Make dead letters due again, with their attempts counted from 0",
		Example: `  belfry dead replay reports report-7 report-8
  belfry dead replay reports --label tenant=acme --yes`,
	}, client.BulkReplay, "replayed", (*client.Client).Replay)
	return cmd
}

func newDeadDrop() *cobra.Command {
	cmd, f := newDeadCall(&cobra.Command{
		Use:   "drop QUEUE [ID...]",
		Short: "Delete dead letters",
		Example: `  belfry dead drop reports report-7
  belfry dead drop reports --all --yes`,
	}, client.BulkPurge, "dropped", (*client.Client).DropDead)
	var all bool
	cmd.Flags().BoolVar(&all, "all", false, "every one of the queue, if neither ids nor a filter are given")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filtered := f.prefix+f.dueAfter+f.dueBefore != "" || len(f.labels)+f.limit > 0
		if len(args) == 1 && !filtered && !all {
			return cli.WrongUsage(errors.New("give ids or a filter, or --all to drop every dead letter of the queue"))
		}
		return run(cmd, args)
	}
	return cmd
}

// newDeadCall completes a command that changes the dead letters with the given ids, or those that pass the filter.
func newDeadCall(cmd *cobra.Command, op client.BulkOp, done string,
	call func(*client.Client, context.Context, string, client.DeadFilter) (int, error)) (*cobra.Command, *listFlags) {
	var caller caller
	var asking asking
	f := new(listFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := f.filter()
		if err != nil {
			return cli.WrongUsage(err)
		}
		conn, err := caller.connect()
		if err != nil {
			return err
		}
		dead := client.DeadFilter{
			IDs: args[1:], Prefix: filter.Prefix, Labels: filter.Labels, DueAfter: filter.DueAfter,
			DueBefore: filter.DueBefore, Limit: f.limit,
		}
		err = asking.ask(cmd, func() (confirm.Question, error) {
			return deadQuestion(cmd.Context(), conn, op, args[0], dead)
		})
		if err != nil {
			return err
		}
		n, err := call(conn, cmd.Context(), args[0], dead)
		switch {
		case err != nil && n > 0:
			return fmt.Errorf("%w (dead letters %s before: %d)", err, done, n)
		case err != nil:
			return err
		case n == 0:
			cmd.PrintErrf("no dead letter was %s%s\n", done, absence(cmd.Context(), conn, args[0]))
		}
		return caller.show(cmd, map[string]int{"count": n}, func(t *output.Table) { t.Row("%d %s", n, done) })
	}
	caller.addFlags(cmd)
	asking.addFlags(cmd)
	f.addFilterFlags(cmd, 0, "at most this many; 0: all")
	return cmd, f
}

// deadQuestion counts the dead letters that a call would change.
func deadQuestion(ctx context.Context, conn *client.Client, op client.BulkOp, queue string, f client.DeadFilter,
) (confirm.Question, error) {
	filter := client.BulkFilter{
		Queue: queue, Prefix: f.Prefix, Labels: f.Labels, DueAfter: f.DueAfter, DueBefore: f.DueBefore,
	}
	if len(f.IDs) > 0 {
		return bulkQuestion(op, filter, len(f.IDs), true), nil
	}
	matched, complete, err := conn.CountBulk(ctx, client.BulkRequest{Op: op, Filter: filter})
	if err != nil {
		return confirm.Question{}, err
	}
	if f.Limit > 0 && matched >= f.Limit {
		matched, complete = f.Limit, true
	}
	return bulkQuestion(op, filter, matched, complete), nil
}
