package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/deploy/local"
)

func newLocal() *cobra.Command {
	var cfg local.Config
	cmd := &cobra.Command{
		Use:   "local [-- SERVE FLAGS]",
		Short: "Run a cluster on this machine: N nodes as child processes on loopback",
		Long: `Run a cluster on this machine: N nodes as child processes on loopback.

The data folder is the cluster: run again on it, it goes on. Ctrl-C, SIGTERM and a closed terminal stop the nodes in
order; under nohup a closed terminal does not. A node that dies is reported and left dead unless --restart is given;
node-2's process id is in DATA/node-2/belfry.pid and its log in DATA/node-2/belfry.log. What follows -- goes to each
node's serve, as in: belfry local -- --shards 24`,
		Example: "  belfry local\n  belfry local --nodes 5 --data /tmp/five --http-port 9400 -- --log-level debug",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.ExtraArgs = args
			cfg.Out = cmd.OutOrStdout()
			return runLocal(cmd, cfg)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Nodes, "nodes", 3, "how many nodes")
	flags.StringVar(&cfg.DataDir, "data", "./belfry-data", "the cluster's folder")
	flags.IntVar(&cfg.HTTPPort, "http-port", 8400, "HTTP port of the first node; the others count up. 0: free ones")
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
	if _, err := fmt.Fprintf(cfg.Out, "ready: %s\n", strings.Join(cluster.URLs(), " ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
