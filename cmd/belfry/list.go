package main

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

type listFlags struct {
	states, labels      []string
	queue, prefix       string
	dueAfter, dueBefore string
	limit               int
	payload             bool
}

func newTaskList() *cobra.Command {
	var caller caller
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks",
		Example: `  belfry task list --state dead --queue reports
  belfry task list --due-before 1h --limit 0 --json | wc -l`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			return runList(cmd, conn, filter, f.limit, caller.json, "no task was found")
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.states, "state", "s", nil, "only tasks in these `states`")
	flags.StringVarP(&f.queue, "queue", "q", "", "only tasks of this `queue`")
	flags.BoolVar(&f.payload, "payload", false, "with payloads (in --json)")
	f.addFilterFlags(flags, 100, "list at most this many tasks; 0: all")
	cli.CompleteWords(cmd, "state", string(client.Scheduled), string(client.Ready), string(client.Firing),
		string(client.Retrying), string(client.Delivered), string(client.Cancelled), string(client.Dead))
	return cmd
}

// addFilterFlags adds the flags that commands on tasks and on dead letters share.
func (f *listFlags) addFilterFlags(flags *pflag.FlagSet, limit int, limitUsage string) {
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

func (f *listFlags) filter(now time.Time) (client.Filter, error) {
	filter := client.Filter{Queue: f.queue, Prefix: f.prefix, Payload: f.payload, PageSize: maxPage}
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
		atOrFromNow(&filter.DueAfter, "due-after", f.dueAfter, now),
		atOrFromNow(&filter.DueBefore, "due-before", f.dueBefore, now),
	)
}

// runList prints tasks as it reads them, since a list may be longer than memory. If there is no task, it prints the
// text nothing to the standard error.
func runList(
	cmd *cobra.Command, conn *client.Client, filter client.Filter, limit int, asJSON bool, nothing string,
) error {
	show, flush := printTable(cmd.OutOrStdout())
	if asJSON {
		show, flush = printLines(cmd.OutOrStdout())
	}
	n := 0
	for task, err := range conn.List(cmd.Context(), filter) {
		if err != nil {
			return errors.Join(err, flush())
		}
		if err := show(task); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	if n == 0 {
		cmd.PrintErrln(nothing)
	}
	return flush()
}

// printLines prints a line of JSON for each task.
func printLines(out io.Writer) (show func(*client.Task) error, flush func() error) {
	enc := json.NewEncoder(out)
	return func(t *client.Task) error { return enc.Encode(t) }, func() error { return nil }
}

const tableChunk = 1000 // rows within which columns are aligned

func printTable(out io.Writer) (show func(*client.Task) error, flush func() error) {
	t := cli.NewTable()
	rows := 0
	show = func(task *client.Task) error {
		if rows == 0 {
			t.Row("ID\tSTATE\tFIRE AT\tQUEUE\tATTEMPTS\tTARGET")
		}
		target := ""
		if task.Target != nil {
			target = task.Target.URL
		}
		t.Row("%s\t%s\t%s\t%s\t%d\t%s", task.ID, task.State, instant(task.FireAt), task.Queue, task.Attempts, target)
		if rows++; rows%tableChunk == 0 {
			return t.Print(out)
		}
		return nil
	}
	return show, func() error { return t.Print(out) }
}
