package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
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
	var asking asking
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a queue's policy; refused while the queue has tasks",
		Example: `  belfry queue delete orders
  belfry queue delete orders --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			err = askAbout(&asking, cmd, args[0], conn.Queue, queueQuestion)
			if err == nil {
				err = conn.DeleteQueue(cmd.Context(), args[0])
			}
			if err != nil {
				return noQueue(cmd.Context(), conn, args[0], err)
			}
			return caller.show(cmd, map[string]string{"deleted": args[0]}, func(t *output.Table) {
				t.Row("%s has no policy any more", args[0])
			})
		},
	}
	caller.addFlags(cmd)
	asking.addFlags(cmd)
	return cmd
}

// queueQuestion asks about the end of a queue's policy.
func queueQuestion(q *client.Queue) confirm.Question {
	effect := "deletes the policy of queue " + q.Name
	if c := q.Counts; c != nil {
		effect += fmt.Sprintf(", which has %s and %s", numberOfThings(int64(c.Unfinished()), "unfinished task"),
			numberOfThings(int64(c.Dead), "dead letter"))
	}
	return confirm.Question{Effect: effect, Kind: "queue", Name: q.Name}
}

func newQueueList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the queues that have a policy or a task",
		Example: `  belfry queue list
  belfry queue list --json | jq -r 'select(.paused) | .queue'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			return listQueues(cmd, conn, &caller.output)
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func listQueues(cmd *cobra.Command, conn *client.Client, form *output.Flags) error {
	shown := output.NewStream(cmd.OutOrStdout(), form, addQueueColumns, addQueue)
	for q, err := range conn.Queues(cmd.Context()) {
		if err != nil {
			return errors.Join(err, shown.Flush())
		}
		if err := shown.Add(q); err != nil {
			return err
		}
	}
	if shown.Len() == 0 {
		cmd.PrintErrln("no queue has a policy or a task")
	}
	return shown.Flush()
}

func addQueueColumns(t *output.Table) {
	t.Columns("QUEUE", "TO", "SCHEDULED", "READY", "FIRING", "LEASED", "RETRYING", "DEAD", "OVERDUE BY").
		Fit("TO", "QUEUE").
		Wide("DELIVERED", "CANCELLED", "MAX IN FLIGHT", "MAX PER SECOND", "RETRY", "WINDOW", "GROUPS").Add()
}

func addQueue(t *output.Table, q *client.Queue) {
	c := q.Counts
	if c == nil {
		c = new(client.QueueCounts)
	}
	perSecond := ""
	if q.MaxPerSecond > 0 {
		perSecond = rate(q.MaxPerSecond)
	}
	t.Cells(q.Name, receiver(q), c.Scheduled, c.Ready, c.Firing, c.Leased, c.Retrying, c.Dead, t.Since(c.OldestOverdue),
		c.Delivered, c.Cancelled, unlessZero(q.MaxInFlight), perSecond, retry(q.Retry), window(q.Window), groups(q))
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

// fillQueue adds the fields of a queue that are set.
func fillQueue(t *output.Table, q *client.Queue) {
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
	field("keep done", instant.Span(q.KeepDone))
	field("keep dead", instant.Span(q.KeepDead))
	field("window", window(q.Window))
	field("signed with", strings.Join(q.Secrets, " "))
	c := q.Counts
	if c == nil {
		return
	}
	if q.Window != nil && !q.WindowOpen {
		field("window opens", cmp.Or(t.Instant(q.WindowOpensAt), "not within ten years"))
	}
	field("scheduled", fmt.Sprintf("%d, of which due within 1m %d, 1h %d, 1d %d", c.Scheduled+c.Retrying, c.Due1m, c.Due1h,
		c.Due1d))
	field("ready", c.Ready)
	field("overdue by", t.Since(c.OldestOverdue))
	field("firing", c.Firing)
	field("leased", c.Leased)
	field("retrying", c.Retrying)
	field("dead", c.Dead)
	field("delivered", c.Delivered)
	field("cancelled", c.Cancelled)
	for _, b := range q.Broken {
		field("broken", fmt.Sprintf("%s since %s: %s; waiting %d", cmp.Or(b.Receiver+b.Path, "the queue's target"),
			t.Instant(b.Since), b.LastError, b.Waiting))
	}
}
