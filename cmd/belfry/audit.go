package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/internal/wait"
)

func newAudit() *cobra.Command {
	var times cli.Times
	var since string
	var follow bool
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "audit",
		Short: "Show the changes of operators, and the calls that were refused",
		Long: `Show the audit logs of all nodes, oldest first: the calls of operators that
changed something or tried to, backups, and the calls that were refused because
of their caller. A record has the names of fields and never their values. After
the first refusal of a source for a reason, further ones are counted for ten
minutes.

Any node answers. It needs a key with the role admin for all namespaces. The
records of a node that does not answer are missing, and are printed by --follow
once it does.`,
		Example: `  belfry audit --since 1h
  belfry audit --follow
  belfry audit --since 7d --json | jq 'select(.kind == "change")'`,
	}, func(c *cli.Call) error {
		q := client.AuditQuery{Limit: 1000}
		if err := times.AtOrBefore(&q.Since, "since", since); err != nil {
			return cli.WrongUsage(err)
		}
		return printRecords(c, q, follow)
	})
	times.AddFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "1d", "`time` of the oldest record: an instant, or a duration before now")
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with new records until the command is stopped")
	return cmd
}

// followEvery is the pause between two looks for new records.
const followEvery = 2 * time.Second

// printRecords prints page after page until the last one, or with follow until the context ends.
func printRecords(c *cli.Call, q client.AuditQuery, follow bool) error {
	lastNote := ""
	for {
		page, err := c.Client.Audit(c.Context(), q)
		switch {
		case err != nil && follow && c.Context().Err() != nil:
			return nil
		case err != nil:
			return err
		}
		for _, r := range page.Records {
			if err := c.Out.Line(r, lineOf(r)); err != nil {
				return err
			}
		}
		if note := noteOf(page); note != "" && note != lastNote {
			lastNote = note
			if _, err := io.WriteString(c.Stderr(), note); err != nil {
				return err
			}
		}
		q.After = page.Next
		switch {
		case page.More && len(page.Records) > 0:
		case !follow:
			return nil
		case !wait.For(c.Context(), followEvery):
			return nil
		}
	}
}

// lineOf describes a record for people.
func lineOf(r client.AuditRecord) string {
	caller := cmp.Or(r.Caller.Name, r.Caller.ID, r.Caller.Kind, "an unknown caller")
	if r.Caller.ID != "" && r.Caller.ID != caller {
		caller += " (" + r.Caller.Kind + " " + r.Caller.ID + ")"
	}
	status := fmt.Sprint(r.Status)
	if r.Status == 0 {
		status = "-"
	}
	parts := []string{instant.Stamp(r.Time), r.Node, status, r.Method, r.Route}
	parts = append(parts, listed(r.Object, "%s=%s")...)
	if len(r.Fields) > 0 {
		parts = append(parts, "["+strings.Join(r.Fields, " ")+"]")
	}
	parts = append(parts, "by", caller)
	if r.From != "" {
		parts = append(parts, "from", r.From)
	}
	if r.Problem != "" {
		parts = append(parts, "refused:", r.Problem)
	}
	parts = append(parts, outcomeOf(r)...)
	if r.Count > 0 {
		parts = append(parts, fmt.Sprintf("(%d times since %s)", r.Count, r.First.Local().Format("15:04:05")))
	}
	return strings.Join(parts, " ")
}

// outcomeOf describes the outcome of a change beyond its status.
func outcomeOf(r client.AuditRecord) []string {
	var parts []string
	if r.Outcome == "begun" || r.Outcome == "unknown" || r.Outcome == "failed" && r.Problem == "" {
		parts = append(parts, r.Outcome)
	}
	if r.Bytes > 0 {
		parts = append(parts, fmt.Sprintf("(%d bytes)", r.Bytes))
	}
	return parts
}

// noteOf describes the records that a page lacks, or returns "".
func noteOf(p *client.AuditPage) string {
	var note strings.Builder
	if p.Lost > 0 {
		fmt.Fprintf(&note, "%d records are lost: they could not be written, or were removed with an old file\n", p.Lost)
	}
	for _, m := range p.Missing {
		fmt.Fprintf(&note, "the records of node %s are missing: %s\n", output.Text(m.Node), output.Text(m.Error))
	}
	return note.String()
}
