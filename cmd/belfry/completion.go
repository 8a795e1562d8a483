package main

import (
	"io"

	"github.com/spf13/cobra"
)

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
