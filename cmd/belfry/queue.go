package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

func newQueue() *cobra.Command {
	return group(&cobra.Command{
		Use:   "queue",
		Short: "Set the policies of queues, and see their contents",
		Example: `  belfry queue set orders --url https://shop.example/hook --max-in-flight 20
  belfry queue get orders`,
	}, newQueueSet(), newQueuePatch(), newQueuePause(), newQueueResume(), newQueueGet(), newQueueList(), newQueueDelete())
}

// group makes a command with subcommands. The command itself prints its help.
func group(parent *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	parent.Args = cli.KnownCommand
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, cmd := range commands {
		cmd.Args = cli.CheckArgs(cmd.Args)
		parent.AddCommand(cmd)
	}
	return parent
}

func newQueueGet() *cobra.Command {
	return newQueueCall(&cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue's policy and counts",
		Example: `  belfry queue get orders
  belfry queue get orders --json | jq .counts.ready`,
	}, (*client.Client).Queue)
}

func newQueueDelete() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a queue's policy; refused while the queue has tasks",
		Example: `  belfry queue delete orders`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			if err := conn.DeleteQueue(cmd.Context(), args[0]); err != nil {
				return err
			}
			return caller.show(cmd, map[string]string{"deleted": args[0]}, func(t *cli.Table) {
				t.Row("%s has no policy any more", args[0])
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
		Example: `  belfry queue list
  belfry queue list --json | jq -r 'select(.paused) | .queue'`,
		Args: cobra.NoArgs,
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
	lines, t := json.NewEncoder(cmd.OutOrStdout()), cli.NewTable()
	if !asJSON {
		t.Row("QUEUE\tTO\tSCHEDULED\tREADY\tFIRING\tLEASED\tRETRYING\tDEAD\tOLDEST OVERDUE")
	}
	n := 0
	for q, err := range conn.Queues(cmd.Context()) {
		if err == nil && asJSON {
			err = lines.Encode(q)
		}
		if err != nil {
			return err
		}
		if n++; !asJSON {
			addQueue(t, q)
		}
	}
	if n == 0 {
		cmd.PrintErrln("no queue has a policy or a task")
	}
	return t.Print(cmd.OutOrStdout())
}

func addQueue(t *cli.Table, q *client.Queue) {
	c := q.Counts
	if c == nil {
		c = new(client.QueueCounts)
	}
	t.Row("%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s", q.Name, receiver(q), c.Scheduled, c.Ready, c.Firing,
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

// fillQueue adds the fields of a queue that are set.
func fillQueue(t *cli.Table, q *client.Queue) {
	field := func(name string, value any) {
		if text := fmt.Sprint(value); text != "0" && text != "0s" {
			t.Field(name, text)
		}
	}
	field("queue", q.Name)
	field("to", receiver(q))
	field("retry", retry(q.Retry))
	field("max in flight", q.MaxInFlight)
	field("max per second", q.MaxPerSecond)
	field("batch max", q.BatchMax)
	field("groups", groups(q))
	field("keep done", q.KeepDone)
	field("keep dead", q.KeepDead)
	field("window", window(q.Window))
	field("signed with", strings.Join(q.Secrets, " "))
	c := q.Counts
	if c == nil {
		return
	}
	if q.Window != nil && !q.WindowOpen {
		field("window opens", cmp.Or(instant(q.WindowOpensAt), "not within ten years"))
	}
	field("scheduled", fmt.Sprintf("%d, of which due within 1m %d, 1h %d, 1d %d", c.Scheduled+c.Retrying, c.Due1m, c.Due1h,
		c.Due1d))
	field("ready", c.Ready)
	field("oldest overdue", overdue(c))
	field("firing", c.Firing)
	field("leased", c.Leased)
	field("retrying", c.Retrying)
	field("dead", c.Dead)
	field("delivered", c.Delivered)
	field("cancelled", c.Cancelled)
}
