package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

type listFlags struct {
	times               cli.Times
	states, labels      []string
	queue, prefix       string
	dueAfter, dueBefore string
	order               client.Order
	limit               int
	payload             bool
}

func newTaskList() *cobra.Command {
	var caller caller
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks",
		Long: `List tasks by id. With --order due the list goes by time: late tasks come first,
then the tasks that fire next. Such a list has ended tasks only if --state names
their states.`,
		Example: `  belfry task list --order due --limit 10
  belfry task list --state dead --queue reports
  belfry task list --due-before 1h --limit 0 --json | wc -l`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter()
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			addColumns, add := addTaskColumns, addTask
			if f.order == client.ByDue {
				addColumns, add = addNextColumns, addNext
			}
			shown := output.NewStream(cmd.OutOrStdout(), &caller.output, addColumns, add)
			return runList(cmd, conn, filter, f.limit, shown, "no task was found")
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.states, "state", "s", nil, "only tasks in these `states`")
	flags.StringVarP(&f.queue, "queue", "q", "", "only tasks of this `queue`")
	flags.StringVar((*string)(&f.order), "order", "", "`order` of the list: id, or due for the next instant (default: id)")
	flags.BoolVar(&f.payload, "payload", false, "with payloads (in --json)")
	f.addFilterFlags(cmd, 100, "list at most this many tasks; 0: all")
	cli.CompleteWords(cmd, "order", string(client.ByID), string(client.ByDue))
	cli.CompleteWords(cmd, "state", string(client.StateScheduled), string(client.StateReady), string(client.StateFiring),
		string(client.StateRetrying), string(client.StateDelivered), string(client.StateCancelled), string(client.StateDead))
	return cmd
}

// addFilterFlags adds the flags that commands on tasks and on dead letters share.
func (f *listFlags) addFilterFlags(cmd *cobra.Command, limit int, limitUsage string) {
	flags := cmd.Flags()
	f.times.AddFlags(cmd)
	flags.StringVar(&f.prefix, "prefix", "", "only those whose id begins with this `text`")
	flags.StringArrayVarP(&f.labels, "label", "l", nil,
		"only those with this `label`, as in tenant=acme or tenant:acme; repeatable")
	flags.StringVar(&f.dueAfter, "due-after", "",
		"only those due at this `time` or later: an instant, or a duration from now")
	flags.StringVar(&f.dueBefore, "due-before", "",
		"only those due before this `time`: an instant, or a duration from now")
	flags.IntVarP(&f.limit, "limit", "n", limit, limitUsage)
}

const maxPage = 1000

func (f *listFlags) filter() (client.Filter, error) {
	filter := client.Filter{Queue: f.queue, Prefix: f.prefix, Order: f.order, Payload: f.payload, PageSize: maxPage}
	if f.limit < 0 {
		return filter, errors.New("--limit is negative")
	}
	if f.limit > 0 {
		filter.PageSize = min(f.limit, maxPage)
	}
	for _, s := range f.states {
		filter.States = append(filter.States, client.State(s))
	}
	if err := cli.Labels(&filter.Labels, f.labels); err != nil {
		return filter, err
	}
	return filter, errors.Join(
		f.times.AtOrAfter(&filter.DueAfter, "due-after", f.dueAfter),
		f.times.AtOrAfter(&filter.DueBefore, "due-before", f.dueBefore),
	)
}

// runList prints tasks as it reads them. If there is no task, it prints the text nothing to the standard error.
func runList(
	cmd *cobra.Command, conn *client.Client, filter client.Filter, limit int, shown *output.Stream[*client.Task],
	nothing string,
) error {
	for task, err := range conn.List(cmd.Context(), filter) {
		if err != nil {
			return errors.Join(err, shown.Flush())
		}
		if err := shown.Add(task); err != nil {
			return err
		}
		if shown.Len() == limit {
			break
		}
	}
	if shown.Len() == 0 {
		cmd.PrintErrln(nothing + absence(cmd.Context(), conn, filter.Queue))
	}
	return shown.Flush()
}

func addTaskColumns(t *output.Table) {
	t.Columns("ID", "STATE", "FIRE AT", "QUEUE", "ATTEMPTS", "TARGET").
		Fit("TARGET", "FIRE AT", "ID").
		Wide("NEXT ATTEMPT", "GROUP", "PRIORITY", "LABELS", "SHARD", "REVISION", "LAST ERROR").Add()
}

func addTask(t *output.Table, task *client.Task) {
	target := ""
	if task.Target != nil {
		target = task.Target.URL
	}
	t.Cells(task.ID, task.State, t.Instant(task.FireAt), task.Queue, task.Attempts, target, t.Instant(task.NextAttemptAt),
		task.Group, unlessZero(task.Priority), labels(task.Labels), task.Shard, task.Revision, task.LastError)
}

// addNextColumns and addNext show tasks with the instants by which a list in due order sorts them.
func addNextColumns(t *output.Table) {
	t.Columns("ID", "STATE", "NEXT", "QUEUE", "ATTEMPTS", "LAST ERROR").
		Fit("LAST ERROR", "NEXT", "ID").
		Wide("FIRE AT", "TARGET", "GROUP", "PRIORITY", "LABELS", "SHARD", "REVISION").Add()
}

func addNext(t *output.Table, task *client.Task) {
	target, next := "", task.FireAt
	if task.Target != nil {
		target = task.Target.URL
	}
	if !task.NextAttemptAt.IsZero() {
		next = task.NextAttemptAt
	}
	t.Cells(task.ID, task.State, t.Instant(next), task.Queue, task.Attempts, task.LastError, t.Instant(task.FireAt),
		target, task.Group, unlessZero(task.Priority), labels(task.Labels), task.Shard, task.Revision)
}

// unlessZero returns a number as text, or "" for 0.
func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
