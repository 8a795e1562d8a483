package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// filterFlags select tasks or dead letters.
type filterFlags struct {
	times               cli.Times
	prefix              string
	labels              []string
	dueAfter, dueBefore string
}

func (f *filterFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addNameFlags(cmd)
	f.times.AddFlags(cmd)
	flags.StringVar(&f.dueAfter, "due-after", "",
		"only those due at this `time` or later: an instant, or a duration from now")
	flags.StringVar(&f.dueBefore, "due-before", "",
		"only those due before this `time`: an instant, or a duration from now")
}

// addNameFlags adds the flags that select by id and label.
func (f *filterFlags) addNameFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.prefix, "prefix", "", "only those whose id begins with this `text`")
	flags.StringArrayVarP(&f.labels, "label", "l", nil,
		"only those with this `label`, as in tenant=acme or tenant:acme; repeatable")
}

// given reports whether one of the flags is given.
func (f *filterFlags) given() bool { return f.prefix+f.dueAfter+f.dueBefore != "" || len(f.labels) > 0 }

// read returns the conditions that the flags describe.
func (f *filterFlags) read() (client.BulkFilter, error) {
	filter := client.BulkFilter{Prefix: f.prefix}
	if err := cli.Labels(&filter.Labels, f.labels); err != nil {
		return filter, err
	}
	return filter, errors.Join(
		f.times.AtOrAfter(&filter.DueAfter, "due-after", f.dueAfter),
		f.times.AtOrAfter(&filter.DueBefore, "due-before", f.dueBefore),
	)
}

// completeStates makes the shell complete --state.
func completeStates(cmd *cobra.Command) {
	cli.CompleteWords(cmd, "state", string(client.StateScheduled), string(client.StateReady), string(client.StateFiring),
		string(client.StateRetrying), string(client.StateDelivered), string(client.StateCancelled), string(client.StateDead))
}

func readStates(texts []string) (states []client.State) {
	for _, text := range texts {
		states = append(states, client.State(text))
	}
	return states
}

// listFlags select the tasks of a list.
type listFlags struct {
	filterFlags
	limit int
}

func (f *listFlags) addFlags(cmd *cobra.Command, limit int, limitUsage string) {
	f.filterFlags.addFlags(cmd)
	cmd.Flags().IntVarP(&f.limit, "limit", "n", limit, limitUsage)
}

// pageSize returns the size of the pages of a list with a limit.
func pageSize(limit int) (int, error) {
	const most = 1000
	switch {
	case limit < 0:
		return 0, errors.New("--limit is negative")
	case limit == 0:
		return most, nil
	}
	return min(limit, most), nil
}

// list prints the tasks that pass the filter and the flags. If there is no task, it prints the text nothing to the
// standard error.
func (f *listFlags) list(c *cli.Call, filter client.Filter, nothing string, header func(*output.Table),
	row func(*output.Table, *client.Task),
) (err error) {
	if filter.PageSize, err = pageSize(f.limit); err != nil {
		return cli.WrongUsage(err)
	}
	conditions, err := f.read()
	if err != nil {
		return cli.WrongUsage(err)
	}
	filter.Prefix, filter.Labels = conditions.Prefix, conditions.Labels
	filter.DueAfter, filter.DueBefore = conditions.DueAfter, conditions.DueBefore
	n, err := output.Stream(c.Out, c.Client.List(c.Context(), filter), f.limit, header, row)
	if err == nil && n == 0 {
		c.Note("%s%s", nothing, absence(c, filter.Queue))
	}
	return err
}

func newTaskList() *cobra.Command {
	var f listFlags
	var filter client.Filter
	var states []string
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "list",
		Short: "List tasks",
		Long: `List tasks by id. With --order due the list goes by time: late tasks come first,
then the tasks that fire next. Such a list has ended tasks only if --state names
their states.`,
		Example: `  belfry task list --order due --limit 10
  belfry task list --state dead --queue reports
  belfry task list --due-before 1h --limit 0 --json | wc -l`,
	}, func(c *cli.Call) error {
		filter.States = readStates(states)
		header, row := addTaskColumns, addTask
		if filter.Order == client.ByDue {
			header, row = addNextColumns, addNext
		}
		return f.list(c, filter, "no task was found", header, row)
	})
	flags := cmd.Flags()
	flags.StringSliceVarP(&states, "state", "s", nil, "only tasks in these `states`")
	flags.StringVarP(&filter.Queue, "queue", "q", "", "only tasks of this `queue`")
	flags.StringVar((*string)(&filter.Order), "order", "",
		"`order` of the list: id, or due for the next instant (default: id)")
	flags.BoolVar(&filter.Payload, "payload", false, "with payloads (in --json)")
	f.addFlags(cmd, 100, "list at most this many tasks; 0: all")
	cli.CompleteWords(cmd, "order", string(client.ByID), string(client.ByDue))
	completeStates(cmd)
	return cmd
}

func addTaskColumns(t *output.Table) {
	t.Columns("ID", "STATE", "FIRE AT", "QUEUE", "ATTEMPTS", "TARGET").
		Fit("TARGET", "FIRE AT", "ID").
		Wide("NEXT ATTEMPT", "GROUP", "PRIORITY", "LABELS", "SHARD", "REVISION", "LAST ERROR").Add()
}

func addTask(t *output.Table, task *client.Task) {
	t.Cells(task.ID, task.State, t.Instant(task.FireAt), task.Queue, task.Attempts, targetURL(task),
		t.Instant(task.NextAttemptAt), task.Group, unlessZero(task.Priority), labels(task.Labels), task.Shard, task.Revision,
		task.LastError)
}

// addNextColumns and addNext show tasks with the instants by which a list in due order sorts them.
func addNextColumns(t *output.Table) {
	t.Columns("ID", "STATE", "NEXT", "QUEUE", "ATTEMPTS", "LAST ERROR").
		Fit("LAST ERROR", "NEXT", "ID").
		Wide("FIRE AT", "TARGET", "GROUP", "PRIORITY", "LABELS", "SHARD", "REVISION").Add()
}

func addNext(t *output.Table, task *client.Task) {
	next := task.FireAt
	if !task.NextAttemptAt.IsZero() {
		next = task.NextAttemptAt
	}
	t.Cells(task.ID, task.State, t.Instant(next), task.Queue, task.Attempts, task.LastError, t.Instant(task.FireAt),
		targetURL(task), task.Group, unlessZero(task.Priority), labels(task.Labels), task.Shard, task.Revision)
}

// targetURL returns the URL of a task's own receiver, or "".
func targetURL(task *client.Task) string {
	if task.Target == nil {
		return ""
	}
	return task.Target.URL
}

// unlessZero returns a number as text, or "" for 0.
func unlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func newDead() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "dead",
		Short: "List, replay and drop dead letters",
		Long: `List, replay and drop a queue's dead letters: tasks whose attempts are used up,
whose receiver refused them, or that expired.`,
		Example: `  belfry dead list reports
  belfry dead replay reports --label tenant=acme`,
	}, newDeadList(), newDeadReplay(), newDeadDrop())
}

func newDeadList() *cobra.Command {
	var f listFlags
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "list [QUEUE]",
		Short: "List the dead letters of a queue, or of all queues",
		Long:  "List the dead letters of a queue, or of all queues, the oldest death first.",
		Example: `  belfry dead list
  belfry dead list reports
  belfry dead list reports --limit 0 --json | jq -r .last_error | sort | uniq -c`,
	}, func(c *cli.Call) error {
		nothing := "no dead letter was found"
		if len(c.Args) == 1 {
			nothing += " in queue " + c.Args[0]
		}
		filter := client.Filter{Queue: c.Arg(), States: []client.State{client.StateDead}, Order: client.ByDue}
		return f.list(c, filter, nothing, addDeadColumns, addDead)
	})
	f.addFlags(cmd, 100, "list at most this many; 0: all")
	return cmd
}

func addDeadColumns(t *output.Table) {
	t.Columns("ID", "QUEUE", "FIRE AT", "LAST ATTEMPT", "ATTEMPTS", "LAST ERROR").
		Fit("FIRE AT", "LAST ATTEMPT", "ID", "LAST ERROR").
		Wide("TARGET", "GROUP", "LABELS", "SHARD", "REVISION").Add()
}

func addDead(t *output.Table, task *client.Task) {
	var ended time.Time
	if n := len(task.History); n > 0 {
		ended = task.History[n-1].EndedAt
	}
	t.Cells(task.ID, task.Queue, t.Instant(task.FireAt), t.Instant(ended), task.Attempts, task.LastError, targetURL(task),
		task.Group, labels(task.Labels), task.Shard, task.Revision)
}

func newDeadReplay() *cobra.Command {
	return newDeadChange(&cobra.Command{
		Use:   "replay QUEUE [ID...]",
		Short: "Make dead letters due again, with their attempts counted from 0",
		Example: `  belfry dead replay reports report-7 report-8
  belfry dead replay reports --label tenant=acme --yes`,
	}, client.BulkReplay, "replayed", (*client.Client).Replay)
}

func newDeadDrop() *cobra.Command {
	return newDeadChange(&cobra.Command{
		Use:   "drop QUEUE [ID...]",
		Short: "Delete dead letters",
		Example: `  belfry dead drop reports report-7
  belfry dead drop reports --all --yes`,
	}, client.BulkPurge, "dropped", (*client.Client).DropDead)
}

// newDeadChange completes a command that changes the dead letters with the given ids, or those that pass the filter. To
// drop all dead letters of a queue takes --all.
func newDeadChange(cmd *cobra.Command, op client.BulkOp, done string,
	call func(*client.Client, context.Context, string, client.DeadFilter) (int, error),
) *cobra.Command {
	var f listFlags
	all := op != client.BulkPurge
	cmd = cli.Asking(cli.Verb(cmd, func(c *cli.Call) (map[string]int, error) {
		if len(c.Args) == 1 && !f.given() && f.limit <= 0 && !all {
			return nil, cli.WrongUsage(errors.New("give ids or a filter, or --all to drop every dead letter of the queue"))
		}
		filter, err := f.read()
		if f.limit < 0 {
			err = errors.New("--limit is negative")
		}
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		dead := client.DeadFilter{
			IDs: c.Args[1:], Prefix: filter.Prefix, Labels: filter.Labels, DueAfter: filter.DueAfter,
			DueBefore: filter.DueBefore, Limit: f.limit,
		}
		if err := c.Ask(func() (cli.Question, error) { return deadQuestion(c, op, dead) }); err != nil {
			return nil, err
		}
		n, err := call(c.Client, c.Context(), c.Args[0], dead)
		switch {
		case err != nil && n > 0:
			return nil, fmt.Errorf("%w (dead letters %s before: %d)", err, done, n)
		case err == nil && n == 0:
			c.Note("no dead letter was %s%s", done, absence(c, c.Args[0]))
		}
		return map[string]int{"count": n}, err
	}, func(t *output.Table, answer map[string]int) { t.Row("%d %s", answer["count"], done) }))
	f.addFlags(cmd, 0, "at most this many; 0: all")
	if op == client.BulkPurge {
		cmd.Flags().BoolVar(&all, "all", false, "every one of the queue, if neither ids nor a filter are given")
	}
	return cmd
}

// deadQuestion counts the dead letters that a call would change.
func deadQuestion(c *cli.Call, op client.BulkOp, f client.DeadFilter) (cli.Question, error) {
	filter := client.BulkFilter{
		Queue: c.Args[0], Prefix: f.Prefix, Labels: f.Labels, DueAfter: f.DueAfter, DueBefore: f.DueBefore,
	}
	if len(f.IDs) > 0 {
		return bulkQuestion(client.BulkRequest{Op: op, Filter: filter}, len(f.IDs), true), nil
	}
	matched, complete, err := c.Client.CountBulk(c.Context(), client.BulkRequest{Op: op, Filter: filter})
	if err != nil {
		return cli.Question{}, err
	}
	if f.Limit > 0 && matched >= f.Limit {
		matched, complete = f.Limit, true
	}
	return bulkQuestion(client.BulkRequest{Op: op, Filter: filter}, matched, complete), nil
}
