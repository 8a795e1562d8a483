package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

type listFlags struct {
	states, labels           []string
	queue, prefix, dueBefore string
	limit                    int
	payload                  bool
}

func newList() *cobra.Command {
	var caller caller
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List tasks",
		Example: "  belfry list --state dead --queue reports\n  belfry list --due-before 1h --limit 0 --json | wc -l",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return &usageError{err}
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
	flags.StringSliceVar(&f.states, "state", nil, "only tasks in these states")
	flags.StringVar(&f.queue, "queue", "", "only tasks of this queue")
	flags.StringVar(&f.prefix, "prefix", "", "only tasks whose id begins so")
	flags.StringArrayVar(&f.labels, "label", nil,
		"only tasks with this label, as in tenant=acme or tenant:acme; repeatable")
	flags.StringVar(&f.dueBefore, "due-before", "", "only tasks due before this instant, or within this time from now")
	flags.BoolVar(&f.payload, "payload", false, "with payloads (seen in --json)")
	flags.IntVar(&f.limit, "limit", 100, "stop after so many tasks; 0: list all")
	return cmd
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
	if err := labelsInto(&filter.Labels, f.labels); err != nil {
		return filter, err
	}
	var within time.Duration
	err := parseAtOrSpan(&filter.DueBefore, &within, "due-before", f.dueBefore)
	if err == nil && f.dueBefore != "" && filter.DueBefore.IsZero() {
		filter.DueBefore = now.Add(within)
	}
	return filter, err
}

// runList prints as it reads: a list may be longer than memory. With nothing to print it says so, beside the output.
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

// printLines prints an object of JSON a line.
func printLines(out io.Writer) (show func(*client.Task) error, flush func() error) {
	enc := json.NewEncoder(out)
	return func(t *client.Task) error { return enc.Encode(t) }, func() error { return nil }
}

const tableChunk = 1000 // columns are aligned within so many rows

func printTable(out io.Writer) (show func(*client.Task) error, flush func() error) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := 0
	show = func(t *client.Task) error {
		if rows == 0 {
			_, _ = fmt.Fprint(table, "ID\tSTATE\tFIRE AT\tQUEUE\tATTEMPTS\tTARGET\n") // into the table's memory
		}
		target := ""
		if t.Target != nil {
			target = t.Target.URL
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n",
			t.ID, t.State, instant(t.FireAt), t.Queue, t.Attempts, target)
		if rows++; err == nil && rows%tableChunk == 0 {
			err = table.Flush()
		}
		return err
	}
	return show, table.Flush
}
