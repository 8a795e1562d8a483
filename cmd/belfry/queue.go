package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newQueue() *cobra.Command {
	return group(&cobra.Command{Use: "queue", Short: "Say how queues are handled, and see what is in them"},
		newQueueSet(), newQueuePatch(), newQueuePause(), newQueueResume(), newQueueGet(), newQueueList(), newQueueDelete())
}

// group makes a command of commands.
func group(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.Args = knownCommand
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, cmd := range commands {
		cmd.Args = usageArgs(cmd.Args)
		parent.AddCommand(cmd)
	}
	return parent
}

func newQueueGet() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue's policy and counts",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			q, err := conn.Queue(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return caller.show(cmd, q, func(w io.Writer) { showQueue(w, q) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func newQueueDelete() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Take a queue's policy away; refused while it has tasks",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			if err := conn.DeleteQueue(cmd.Context(), args[0]); err != nil {
				return err
			}
			return caller.show(cmd, map[string]string{"deleted": args[0]}, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "%s has no policy any more\n", args[0]) // into the table's memory
			})
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func newQueueList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the queues that have a policy or a task",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			return listQueues(cmd, conn, caller.json)
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func listQueues(cmd *cobra.Command, conn *client.Client, asJSON bool) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	if !asJSON {
		_, _ = fmt.Fprint(table, "QUEUE\tTO\tSCHEDULED\tREADY\tFIRING\tLEASED\tRETRYING\tDEAD\tOLDEST OVERDUE\n")
	}
	n := 0
	for q, err := range conn.Queues(cmd.Context()) {
		if err == nil && asJSON {
			err = enc.Encode(q)
		}
		if err != nil {
			return err
		}
		if n++; !asJSON {
			queueRow(table, q)
		}
	}
	if n == 0 {
		cmd.PrintErrln("no queue has a policy or a task")
	}
	return table.Flush()
}

// queueRow fills the table; writing into its memory does not fail.
func queueRow(w io.Writer, q *client.Queue) {
	c := q.Counts
	if c == nil {
		c = new(client.QueueCounts)
	}
	_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", q.Name, receiver(q), c.Scheduled, c.Ready, c.Firing,
		c.Leased, c.Retrying, c.Dead, overdue(c))
}

func receiver(q *client.Queue) string {
	to := "consumers"
	if q.Target != nil {
		to = q.Target.URL
	}
	if q.Paused {
		to += " (paused)"
	}
	return to
}

func overdue(c *client.QueueCounts) string {
	if c.OldestOverdue == nil {
		return ""
	}
	return instant(*c.OldestOverdue)
}

// showQueue prints a queue as a table of what is set.
func showQueue(w io.Writer, q *client.Queue) {
	row := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "0s" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, text) // into the table's memory
		}
	}
	row("queue", q.Name)
	row("to", receiver(q))
	row("retry", retry(q.Retry))
	row("max in flight", q.MaxInFlight)
	row("max per second", q.MaxPerSecond)
	row("batch max", q.BatchMax)
	row("keep done", q.KeepDone)
	row("keep dead", q.KeepDead)
	row("signed with", strings.Join(q.Secrets, " "))
	c := q.Counts
	if c == nil {
		return
	}
	row("scheduled", fmt.Sprintf("%d, of which due within 1m %d, 1h %d, 1d %d", c.Scheduled+c.Retrying, c.Due1m, c.Due1h,
		c.Due1d))
	row("ready", c.Ready)
	row("oldest overdue", overdue(c))
	row("firing", c.Firing)
	row("leased", c.Leased)
	row("retrying", c.Retrying)
	row("dead", c.Dead)
	row("delivered", c.Delivered)
	row("cancelled", c.Cancelled)
}
