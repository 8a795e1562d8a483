package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Errors of a doctor that has printed its findings.
var (
	errWarnings = fmt.Errorf("warnings: %w", errSaid)
	errCritical = fmt.Errorf("critical findings: %w", errSaid)
)

func newDoctor() *cobra.Command {
	return cli.PlainVerb(&cobra.Command{
		Use:   "doctor",
		Short: "Find the faults of a cluster, and name the next steps",
		Long: `Find the faults of a cluster, and name the next steps.

Any node answers, also without a quorum. Give several nodes with --addr: the
next is asked when one is down. A node that is cut off from the others sees
other troubles than they do.

The exit code is 0 if nothing is wrong, 5 if there are warnings, 6 if there are
critical findings, and 1 if no node answers.`,
		Example: `  belfry doctor
  belfry doctor --addr http://n1:8400,http://n2:8400,http://n3:8400
  belfry doctor --json | jq -r .code`,
	}, func(c *cli.Call) error {
		found, err := c.Client.Doctor(c.Context())
		switch {
		case errors.Is(err, client.ErrUnknown): // its exit code is for changes, and the doctor only reads
			return errors.New(err.Error())
		case err != nil:
			return err
		}
		if err := output.ShowEach(c.Out, found, fillFindings); err != nil {
			return err
		}
		has := func(s client.Severity) bool {
			return slices.ContainsFunc(found, func(f client.Finding) bool { return f.Severity == s })
		}
		switch {
		case has(client.Critical):
			return errCritical
		case has(client.Warning):
			return errWarnings
		}
		return nil
	})
}

func fillFindings(t *output.Table, found []client.Finding) {
	if len(found) == 0 {
		t.Row("nothing is wrong, as far as the node knows")
		return
	}
	for i, f := range found {
		if i > 0 {
			t.Row("")
		}
		t.Row("%s %s", strings.ToUpper(string(f.Severity)), f.Code)
		for _, line := range wrapped(f.Summary, cli.HelpWidth-2) {
			t.Row("  %s", line)
		}
		for _, command := range f.Do {
			t.Row("  > %s", command)
		}
	}
}

// wrapped breaks a text into lines of at most width characters, as far as its words allow.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}
