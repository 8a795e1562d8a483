package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newQueue() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "queue",
		Short: "Set the policies of queues, and see their contents",
		Example: `  belfry queue set orders --url https://shop.example/hook --max-in-flight 20
  belfry queue get orders`,
	}, newQueueSet(), newQueuePatch(), newQueuePause(), newQueueResume(), newQueueGet(), newQueueList(), newQueueDelete())
}

func newQueueGet() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue's policy and counts",
		Example: `  belfry queue get orders
  belfry queue get orders --json | jq .counts.ready`,
	}, func(c *cli.Call) (*client.Queue, error) {
		q, err := c.Client.Queue(c.Context(), c.Args[0])
		return q, noQueue(c, c.Args[0], err)
	}, fillQueue)
}

func newQueuePause() *cobra.Command {
	return newQueueChange(&cobra.Command{
		Use:     "pause NAME",
		Short:   "Pause a queue: attempts and leases under way go on, none begins",
		Example: `  belfry queue pause orders`,
	}, (*client.Client).PauseQueue)
}

func newQueueResume() *cobra.Command {
	return newQueueChange(&cobra.Command{
		Use:     "resume NAME",
		Short:   "End a queue's pause",
		Example: `  belfry queue resume orders`,
	}, (*client.Client).ResumeQueue)
}

// newQueueChange completes a command whose call would make a missing queue. The command refuses one: the name is
// probably wrong.
func newQueueChange(
	cmd *cobra.Command, call func(*client.Client, context.Context, string) (*client.Queue, error),
) *cobra.Command {
	return cli.Verb(cmd, func(c *cli.Call) (*client.Queue, error) {
		name := c.Args[0]
		if _, err := c.Client.Queue(c.Context(), name); errors.Is(err, client.ErrNotFound) {
			return nil, fmt.Errorf("%w; belfry queue set %s --paused makes a paused one", noQueue(c, name, err),
				shellWord(name))
		}
		q, err := call(c.Client, c.Context(), name)
		return q, noQueue(c, name, err)
	}, fillQueue)
}

func newQueueDelete() *cobra.Command {
	return cli.Asking(cli.Verb(&cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a queue's policy; refused while the queue has tasks",
		Example: `  belfry queue delete orders
  belfry queue delete orders --yes`,
	}, func(c *cli.Call) (map[string]string, error) {
		err := cli.AskAbout(c, c.Client.Queue, queueQuestion)
		if err == nil {
			err = c.Client.DeleteQueue(c.Context(), c.Args[0])
		}
		return map[string]string{"deleted": c.Args[0]}, noQueue(c, c.Args[0], err)
	}, func(t *output.Table, answer map[string]string) { t.Row("%s has no policy any more", answer["deleted"]) }))
}

// queueQuestion asks about the end of a queue's policy.
func queueQuestion(q *client.Queue) cli.Question {
	effect := "deletes the policy of queue " + q.Name
	if c := q.Counts; c != nil {
		effect += fmt.Sprintf(", which has %s and %s", output.Many(c.Unfinished(), "unfinished task"),
			output.Many(c.Dead, "dead letter"))
	}
	return cli.Question{Effect: effect, Kind: "queue", Name: q.Name}
}

// noQueueError is the error of a call about a queue that is not there.
type noQueueError struct {
	name, hint string
	refusal    error
}

func (e *noQueueError) Error() string { return fmt.Sprintf("there is no queue %q%s", e.name, e.hint) }
func (e *noQueueError) Unwrap() error { return e.refusal }

// noQueue returns the error of a call about a queue. If the queue is not there, the error suggests the nearest names.
func noQueue(c *cli.Call, name string, err error) error {
	if !errors.Is(err, client.ErrNotFound) {
		return err
	}
	return &noQueueError{name, cli.DidYouMean(name, queueNames(c)), err}
}

// queueNames returns the names of the queues, or some of them if there are many or the caller may not see them.
func queueNames(c *cli.Call) (names []string) {
	const most = 1000
	for q, err := range c.Client.Queues(c.Context()) {
		if err != nil || len(names) == most {
			break
		}
		names = append(names, q.Name)
	}
	return names
}

// absence returns the end of a message about an empty answer if the reason is that the queue is not there.
func absence(c *cli.Call, name string) string {
	if name == "" {
		return ""
	}
	if _, err := c.Client.Queue(c.Context(), name); errors.Is(err, client.ErrNotFound) {
		return ": " + noQueue(c, name, err).Error()
	}
	return ""
}

func newQueueList() *cobra.Command {
	return cli.PlainVerb(&cobra.Command{
		Use:   "list",
		Short: "List the queues that have a policy or a task",
		Example: `  belfry queue list
  belfry queue list --json | jq -r 'select(.paused) | .queue'`,
	}, func(c *cli.Call) error {
		n, err := output.Stream(c.Out, c.Client.Queues(c.Context()), 0, addQueueColumns, addQueue)
		if err == nil && n == 0 {
			c.Note("no queue has a policy or a task")
		}
		return err
	})
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
	t.Field("on delivered", followUp(q.OnDelivered))
	t.Field("on dead", followUp(q.OnDead))
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

// groups describes how a queue treats groups.
func groups(q *client.Queue) string {
	var words []string
	if q.GroupInFlight > 0 {
		words = append(words, fmt.Sprintf("%d of each under way", q.GroupInFlight))
	}
	if q.GroupPerSecond > 0 {
		words = append(words, rate(q.GroupPerSecond)+" a second of each")
	}
	if q.FIFO {
		words = append(words, "in order")
	}
	if q.Fair {
		words = append(words, "in turn")
	}
	return strings.Join(append(words, listed(q.GroupWeights, "%s=%d")...), ", ")
}
