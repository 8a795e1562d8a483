package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/top"
)

// The patience of belfry top with its cluster. A node waits two seconds for the leaders of shards.
const (
	topSilence = 3 * time.Second  // with one node, before the next one is asked
	topTimeout = 10 * time.Second // with all nodes
)

func newTop() *cobra.Command {
	var every time.Duration
	var once bool
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "top",
		Short: "Show a cluster live: waiting, firing and late tasks, nodes, trouble",
		Long: `Show a cluster live. The figures count waiting and due tasks, events a
second, lateness and dead letters. The tables list nodes with their lag and
clocks, the leaders of shards, moves under way, and the queues of the namespace.
Queues in trouble come first.

Keys: q quits, p pauses, s changes the order, the arrows or j and k scroll,
? explains the columns. Without a terminal it prints one page and ends.

If a node fails, the next one of --addr is asked. If none answers, the page
says since when its figures are stale. A key of one namespace sees only queues:
the rest needs the role read for all namespaces.`,
		Example: `  belfry top --addr node-1:8400,node-2:8400,node-3:8400
  belfry top --once
  belfry top --json | jq .lateness.p99_ms`,
	}, func(c *cli.Call) error {
		if every < 100*time.Millisecond {
			return cli.WrongUsage(errors.New("--every: at least 100ms"))
		}
		conn, err := c.Connection.Open(func(cfg *client.Config) {
			cfg.AttemptTimeout, cfg.Timeout = min(topSilence, cfg.Timeout), min(topTimeout, cfg.Timeout)
		})
		if err != nil {
			return err
		}
		defer conn.Close()
		view := top.Config{API: conn, Addrs: c.Connection.Addrs, Every: every, In: c.In(), Out: c.Stdout()}
		switch {
		case !c.Out.IsTable():
			return view.Values(c.Context(), once, c.Out.Encode)
		case once || !cli.IsTerminal(view.In) || !cli.IsTerminal(view.Out):
			return view.Once(c.Context())
		}
		return view.Live(c.Context())
	})
	cmd.Flags().Var(cli.NewSpan(&every, time.Second), "every", "`time` between two rounds")
	cmd.Flags().BoolVar(&once, "once", false, "print one page, or one value of -o json or yaml, and end")
	return cmd
}
