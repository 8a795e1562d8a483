package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// caller holds the flags that all client commands share: the connection to the cluster, and the form of the output.
type caller struct {
	cli.Connection
	output output.Flags
}

func (c *caller) addFlags(cmd *cobra.Command) {
	c.AddFlags(cmd.Flags())
	c.output.Add(cmd)
	c.output.UseClock(&c.Connection)
}

const keyUsage = "idempotency `key` (default: a random one)"

func (c *caller) connect() (*client.Client, error) { return c.Open() }

// show prints a result in the form that the flags ask for.
func (c *caller) show(cmd *cobra.Command, v any, fill func(*output.Table)) error {
	return c.output.Show(cmd.OutOrStdout(), v, fill)
}

// taskCall makes a call and prints the task that it returns.
func (c *caller) taskCall(cmd *cobra.Command, call func(*client.Client) (*client.Task, error)) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	task, err := call(conn)
	if err != nil {
		return err
	}
	return c.show(cmd, task, func(t *output.Table) { fillTask(t, task) })
}

// fillTask adds the fields of a task that are set.
func fillTask(t *output.Table, task *client.Task) {
	t.Field("id", task.ID)
	t.Field("state", string(task.State))
	t.Field("outcome", string(task.Outcome))
	t.Field("previous", string(task.Previous))
	t.Field("queue", task.Queue)
	t.Time("fire at", task.FireAt)
	t.Time("next attempt", task.NextAttemptAt)
	t.Field("attempts", fmt.Sprint(task.Attempts))
	t.Field("last error", task.LastError)
	t.Time("leased until", task.LeaseEndsAt)
	if task.Target != nil {
		t.Field("target", task.Target.URL)
	}
	t.Field("retry", retry(task.Retry))
	t.Field("labels", labels(task.Labels))
	t.Field("window", window(task.Window))
	t.Field("group", task.Group)
	if task.Priority != 0 {
		t.Field("priority", fmt.Sprint(task.Priority))
	}
	t.Field("waits for", task.WaitsFor)
	t.Field("payload", payload(task))
	t.Field("shard", fmt.Sprint(task.Shard))
	t.Field("revision", fmt.Sprint(task.Revision))
	for _, p := range task.History {
		t.Field(fmt.Sprintf("attempt %d", p.Attempt), attempt(p))
	}
}

// attempt describes how an attempt ended, when, and where it was made.
func attempt(p client.Past) string {
	result := p.Error
	if result == "" {
		result = "delivered"
	}
	by := p.Node
	if by == "" {
		by = "consumer"
	}
	return fmt.Sprintf("%s (%s, %s, fence %d)", result, instant.Stamp(p.EndedAt), by, p.Fence)
}

// retry describes the rule that a task or a queue has for its attempts.
func retry(r *client.Retry) string {
	var parts []string
	if r != nil && r.MaxAttempts > 0 {
		parts = append(parts, fmt.Sprintf("at most %d attempts", r.MaxAttempts))
	}
	if r != nil && r.MinBackoff > 0 {
		parts = append(parts, "at least "+instant.Span(r.MinBackoff)+" apart")
	}
	if r != nil && r.MaxBackoff > 0 {
		parts = append(parts, "at most "+instant.Span(r.MaxBackoff)+" apart")
	}
	if r != nil && len(r.Delays) > 0 {
		parts = append(parts, "after "+spans(r.Delays))
	}
	return strings.Join(parts, ", ")
}

// spans lists durations.
func spans(list []time.Duration) string {
	texts := make([]string, len(list))
	for i, d := range list {
		texts[i] = instant.Span(d)
	}
	return strings.Join(texts, ", ")
}

const maxPayload = 200 // bytes of a payload in a table

func payload(t *client.Task) string {
	if t.PayloadBytes != nil {
		return fmt.Sprintf("%d bytes", len(t.PayloadBytes))
	}
	text := strings.Join(strings.Fields(string(t.Payload)), " ")
	if len(text) > maxPayload {
		return strings.ToValidUTF8(text[:maxPayload], "") + fmt.Sprintf("… (%d bytes)", len(t.Payload))
	}
	return text
}

func newWhoAmI() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show the identity that the cluster sees behind a call",
		Example: `  belfry whoami
  belfry whoami --key-file shop.key --json | jq -r '.grants[].role'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.OpenIn("")
			if err != nil {
				return err
			}
			who, err := conn.WhoAmI(cmd.Context())
			if err != nil {
				return err
			}
			return caller.show(cmd, who, func(t *output.Table) { fillCaller(t, who) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillCaller(t *output.Table, who *client.Caller) {
	t.Field("kind", who.Kind)
	t.Field("id", who.ID)
	t.Field("name", who.Name)
	t.Field("namespace", who.Namespace)
	for _, g := range who.Grants {
		t.Field("may", grants([]client.Grant{g}))
	}
}
