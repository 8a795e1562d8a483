package main

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/deploy/demo"
)

func newDemo() *cobra.Command {
	var cfg demo.Config
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a cluster lose a node and no task",
		Long: `Watch a cluster lose a node and no task.

Starts three nodes and a receiver, schedules thousands of tasks over the next
seconds, kills the leader of the busiest shard with SIGKILL in the middle,
starts it again, and prints a verdict. Exits with 0 only if no task was lost
and none came early. Ctrl-C and a closed terminal stop the nodes.`,
		Example: `  belfry demo
  belfry demo --tasks 50000 --stay`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Out = cmd.OutOrStdout()
			cfg.Live = term.IsTerminal(int(os.Stdout.Fd()))
			ctx, stop := untilHangup(cmd.Context())
			defer stop()
			verdict, err := demo.Run(ctx, cfg)
			if err == nil && !verdict.OK() {
				err = errSaid
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Tasks, "tasks", 5000, "number of tasks to schedule")
	flags.StringVar(&cfg.DataDir, "data", "",
		"`folder` in which the nodes' data is kept (default: a temporary one, removed at the end)")
	flags.BoolVar(&cfg.Stay, "stay", false, "keep the cluster up after the verdict, until Ctrl-C")
	return cmd
}
