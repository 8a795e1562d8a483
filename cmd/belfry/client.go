package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

// caller is what all client commands share: where the cluster is, and how to print.
type caller struct {
	addrs   []string
	timeout time.Duration
	json    bool
}

func (c *caller) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&c.addrs, "addr", []string{"http://127.0.0.1:8400"},
		"nodes of the cluster; the next is tried when one is down")
	flags.Var(newSpan(&c.timeout, 30*time.Second), "timeout", "how long to try")
	flags.BoolVar(&c.json, "json", false, "print JSON")
}

func (c *caller) connect() (*client.Client, error) {
	conn, err := client.New(client.Config{Addrs: c.addrs, Timeout: c.timeout, FixedAddrs: true, SingleCalls: true})
	if err != nil {
		return nil, &usageError{err}
	}
	return conn, nil
}

// show prints v as JSON, or with human.
func (c *caller) show(cmd *cobra.Command, v any, human func(w io.Writer)) error {
	out := cmd.OutOrStdout()
	if !c.json {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		human(table)
		return table.Flush()
	}
	return printJSON(out, v)
}

func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// showTask prints a task as a table of what is set.
func showTask(w io.Writer, t *client.Task) {
	row := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, value) // into the table's memory
		}
	}
	row("id", t.ID)
	row("state", string(t.State))
	row("outcome", string(t.Outcome))
	row("previous", string(t.Previous))
	row("queue", t.Queue)
	row("fire at", instant(t.FireAt))
	row("next attempt", instant(t.NextAttemptAt))
	row("attempts", fmt.Sprint(t.Attempts))
	row("last error", t.LastError)
	row("leased until", instant(t.LeaseEndsAt))
	if t.Target != nil {
		row("target", t.Target.URL)
	}
	row("retry", retry(t.Retry))
	row("labels", labels(t.Labels))
	row("payload", payload(t))
	row("shard", fmt.Sprint(t.Shard))
	row("revision", fmt.Sprint(t.Revision))
	for _, p := range t.History {
		row(fmt.Sprintf("attempt %d", p.Attempt), past(p))
	}
}

// past shows how an attempt ended, when, and where it was made.
func past(p client.Past) string {
	what := p.Error
	if what == "" {
		what = "delivered"
	}
	by := p.Node
	if by == "" {
		by = "consumer"
	}
	return fmt.Sprintf("%s (%s, %s, fence %d)", what, p.EndedAt.UTC().Format("2006-01-02T15:04:05.000Z"), by, p.Fence)
}

// retry shows what a task says itself about its attempts.
func retry(r *client.Retry) string {
	var parts []string
	if r != nil && r.MaxAttempts > 0 {
		parts = append(parts, fmt.Sprintf("at most %d attempts", r.MaxAttempts))
	}
	if r != nil && r.MinBackoff > 0 {
		parts = append(parts, fmt.Sprintf("at least %v apart", r.MinBackoff))
	}
	if r != nil && r.MaxBackoff > 0 {
		parts = append(parts, fmt.Sprintf("at most %v apart", r.MaxBackoff))
	}
	if r != nil && len(r.Delays) > 0 {
		parts = append(parts, fmt.Sprintf("after %v", r.Delays))
	}
	return strings.Join(parts, ", ")
}

// instant shows a time and how far it is from now.
func instant(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	distance := time.Until(at).Round(time.Second)
	stamp := at.UTC().Format("2006-01-02T15:04:05.000Z")
	switch {
	case distance > 0:
		return fmt.Sprintf("%s (in %v)", stamp, distance)
	case distance < 0:
		return fmt.Sprintf("%s (%v ago)", stamp, -distance)
	}
	return stamp + " (now)"
}

const maxShownPayload = 200

func payload(t *client.Task) string {
	if t.PayloadBytes != nil {
		return fmt.Sprintf("%d bytes", len(t.PayloadBytes))
	}
	text := strings.Join(strings.Fields(string(t.Payload)), " ")
	if len(text) > maxShownPayload {
		return strings.ToValidUTF8(text[:maxShownPayload], "") + fmt.Sprintf("… (%d bytes)", len(t.Payload))
	}
	return text
}
