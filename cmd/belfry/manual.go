package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/manual"
)

// exits are the exit codes for the manual.
var exits = []manual.Exit{
	{Code: 0, Meaning: "done"},
	{Code: exitFailed, Meaning: "failed, or a check found something: see the description of the command"},
	{Code: exitUsage, Meaning: "wrong arguments, settings or configuration file"},
	{Code: exitNotFound, Meaning: "there is no such task, queue or other thing", Calls: true},
	{Code: exitUnknown, Meaning: "the call may or may not have happened", Calls: true},
	{Code: exitWarnings, Meaning: "belfry doctor: there are warnings, and nothing worse", Path: "belfry doctor"},
	{Code: exitCritical, Meaning: "belfry doctor: there are critical findings", Path: "belfry doctor"},
	{Code: exitSettings, Meaning: "belfry serve: in place of 2", Path: "belfry serve"},
}

// epochVariable holds the date of reproducible builds, in Unix seconds.
const epochVariable = "SOURCE_DATE_EPOCH"

func newMan() *cobra.Command {
	var to string
	var markdown bool
	cmd := &cobra.Command{
		Use:   "man --to DIR",
		Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands, for section 1. They have the date of
SOURCE_DATE_EPOCH, or none without it, so that a build can be repeated. With
--markdown it prints one page of Markdown instead.`,
		Example: `  belfry man --to /usr/share/man/man1
  belfry man --markdown > docs/reference/command-line.md`,
		Hidden: true, // it is for packages and for the documentation
		RunE: func(cmd *cobra.Command, _ []string) error {
			page := manual.PageOf(cmd.Root())
			switch {
			case markdown == (to != ""):
				return cli.WrongUsage(errors.New("give either --to or --markdown"))
			case markdown:
				_, err := io.WriteString(cmd.OutOrStdout(), page.Markdown(exits))
				return err
			}
			date, err := manDate(os.Getenv(epochVariable))
			if err != nil {
				return cli.WrongUsage(err)
			}
			return writeManual(to, date, page)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`folder` for the pages, which is made")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print one page of Markdown")
	return cmd
}

// manDate returns the date of an epoch, or "" without one.
func manDate(epoch string) (string, error) {
	if epoch == "" {
		return "", nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%s %q is not a number of seconds", epochVariable, epoch)
	}
	return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
}

func writeManual(dir, date string, root *manual.Page) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, page := range root.All() {
		file := filepath.Join(dir, manual.File(page.Path))
		if err := os.WriteFile(file, []byte(page.Roff(date, exits)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// completionScripts write the script by which a shell completes the commands.
var completionScripts = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes commands in bash, zsh, fish or powershell",
		Long: `Print a script that makes a shell complete commands, flags, and the names of the
cluster: ids of tasks and schedules, queues, nodes and others. A name is looked
up at the cluster that the flags so far, or the environment, name. It takes half
a second at most, and no longer list than 50 names.

  bash         source <(belfry completion bash), with the package
               bash-completion; or into /etc/bash_completion.d/belfry
  zsh          into a file _belfry in a folder of $fpath
  fish         into ~/.config/fish/completions/belfry.fish
  powershell   belfry completion powershell | Out-String | Invoke-Expression`,
		Example: `  belfry completion bash > /etc/bash_completion.d/belfry
  belfry completion fish > ~/.config/fish/completions/belfry.fish`,
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return completionScripts[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
