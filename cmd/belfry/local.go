package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/belfryhq/belfry/deploy/demo"
	"github.com/belfryhq/belfry/deploy/local"
)

func newLocal() *cobra.Command {
	var cfg local.Config
	cmd := &cobra.Command{
		Use:   "local [-- SERVE FLAGS]",
		Short: "Run a cluster of child processes on this machine",
		Long: `Run a cluster on this machine: nodes as child processes on loopback.

The data folder is the cluster: a later run on it continues with its tasks.
Ctrl-C, SIGTERM and a closed terminal stop the nodes in order; under nohup a
closed terminal does not. A node that dies is reported and left dead unless
--restart is given. The process id of node-2 is in DATA/node-2/belfry.pid and
its log in DATA/node-2/belfry.log. Arguments after -- go to each node's serve.

With --auth calls need a key, at later runs on the folder, too. The key of the
first admin is in DATA/admin.key.`,
		Example: `  belfry local
  belfry local --auth
  belfry local --nodes 5 --data /tmp/five --http-port 9400 -- --shards 24`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.ExtraArgs = args
			cfg.Out = cmd.OutOrStdout()
			return runLocal(cmd, cfg)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Nodes, "nodes", 3, "number of nodes")
	flags.StringVar(&cfg.DataDir, "data", "./belfry-data", "`folder` of the cluster")
	flags.IntVar(&cfg.HTTPPort, "http-port", 8400, "HTTP `port` of the first node; the others count up; 0: free ones")
	flags.BoolVar(&cfg.Auth, "auth", false, "let calls need a key; the first one is in DATA/admin.key")
	flags.BoolVar(&cfg.Restart, "restart", false, "start a node again that dies")
	return cmd
}

func runLocal(cmd *cobra.Command, cfg local.Config) error {
	ctx, stop := untilHangup(cmd.Context())
	defer stop()
	cluster, err := local.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer cluster.Stop()
	if _, err := fmt.Fprintf(cfg.Out, "ready: %s\n%s", strings.Join(cluster.URLs(), " "), keyHint(cluster)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// keyHint returns lines that show how to call a cluster whose calls need a key, or "" for other clusters.
func keyHint(cluster *local.Cluster) string {
	path := cluster.KeyFile()
	if path == "" {
		return ""
	}
	return fmt.Sprintf(`calls need a key. The key of the first admin is in %[1]s:
  belfry task list --addr %[2]s --key-file %[1]s
  curl -H "Authorization: Bearer $(cat %[1]s)" %[2]s/v1/tasks
`, path, cluster.URLs()[0])
}

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
