package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newTail() *cobra.Command {
	var filter client.EventFilter
	var times cli.Times
	var since string
	var labels []string
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "tail",
		Short: "Show the events of tasks as a live stream",
		Long: `Show the events of a namespace's tasks as a live stream: scheduled, moved,
fired, delivered, failed, dead, cancelled, expired, skipped. It goes on at
another node when one fails, without a loss.

The id of an event, which --json shows, is where --after goes on later.`,
		Example: `  belfry tail --queue orders --type failed,dead
  belfry tail --since 1h --until-now --json | jq -c 'select(.type == "dead")'`,
	}, func(c *cli.Call) error {
		err := times.AtOrBefore(&filter.Since, "since", since)
		if err == nil {
			err = cli.Labels(&filter.Labels, labels)
		}
		if err != nil {
			return cli.WrongUsage(err)
		}
		return printEvents(c, filter)
	})
	times.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&filter.Queue, "queue", "q", "", "only events of this `queue`")
	flags.StringSliceVar(&filter.Types, "type", nil, "only events of these `types`, as in failed,dead")
	cli.CompleteWords(cmd, "type", "scheduled", "moved", "fired", "delivered", "failed", "dead", "cancelled", "expired",
		"skipped")
	flags.StringVar(&filter.Prefix, "prefix", "", "only tasks whose ids begin with this `prefix`")
	flags.StringArrayVarP(&labels, "label", "l", nil, "only tasks with this `label`, as in tenant=acme; repeatable")
	flags.StringVar(&since, "since", "", "`time` of the oldest event: an instant, or a duration before now")
	flags.StringVar(&filter.After, "after", "", "go on behind the event of this `id`")
	flags.BoolVar(&filter.Ends, "until-now", false, "end at the present")
	return cmd
}

// printEvents prints events as they come. It goes on behind an event that it cannot read, and fails at the end.
func printEvents(c *cli.Call, filter client.EventFilter) (failed error) {
	for event, err := range c.Client.Events(c.Context(), filter) {
		var unreadable *client.EventError
		if errors.As(err, &unreadable) && unreadable.ID != "" {
			failed = errSaid
			c.Note("belfry: %s", output.Text(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		if err := c.Out.Line(event, describeEvent(event)); err != nil {
			return err
		}
	}
	return failed
}

// describeEvent describes an event for people.
func describeEvent(e *client.Event) string {
	if e.Type == client.EventGap {
		return "(events are missing here)"
	}
	at := instant.Stamp(e.At)
	parts := []string{at, fmt.Sprintf("%-9s", e.Type), e.Task, "queue=" + e.Queue}
	switch e.Type {
	case "scheduled", "moved", "skipped":
		parts = append(parts, "due="+instant.Stamp(e.Due))
	}
	if e.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt=%d", e.Attempt))
	}
	if e.Lateness != "" {
		parts = append(parts, "late="+e.Lateness)
	}
	if e.Answer != "" {
		parts = append(parts, fmt.Sprintf("%q", e.Answer))
	}
	return strings.Join(parts, " ")
}

func newTaskHistory() *cobra.Command {
	var limit int
	cmd := cli.Verb(&cobra.Command{
		Use:   "history ID",
		Short: "Show the history of a task, even of a removed one",
		Example: `  belfry task history order-1042-close
  belfry task history order-1042-close --json | jq '.events[].type'`,
	}, func(c *cli.Call) (*client.History, error) {
		return c.Client.TaskHistory(c.Context(), c.Args[0], limit)
	}, fillHistory)
	cmd.Flags().IntVar(&limit, "limit", 0, "most `events` to show (default 100)")
	return cmd
}

func fillHistory(t *output.Table, h *client.History) {
	for i := range h.Events {
		t.Row("%s", describeEvent(&h.Events[i]))
	}
	if h.More {
		t.Row("(there are more: see --limit)")
	}
	if !h.Complete && !h.More {
		t.Row("(%s)", incomplete(h))
	}
}

// incomplete says why a history may lack events.
func incomplete(h *client.History) string {
	if h.CompleteSince != nil {
		return "events up to " + instant.Stamp(*h.CompleteSince) + " may be gone"
	}
	nodes := cmp.Or(strings.Join(h.Missing, ", "), "a node that had them")
	return nodes + " did not answer, or was restored: events may be missing"
}
