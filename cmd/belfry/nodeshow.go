package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newNodeShow() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "show NODE",
		Short: "Show a node, by its name or id",
		Example: `  belfry node show n3
  belfry node show n3 --json | jq .disk_free`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			nodes, err := conn.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			i := slices.IndexFunc(nodes, func(n client.Node) bool { return n.ID == args[0] })
			if i < 0 {
				i = slices.IndexFunc(nodes, func(n client.Node) bool { return n.Name == args[0] })
			}
			if i < 0 {
				return fmt.Errorf("no node of the cluster has this id or name: %w", client.ErrNotFound)
			}
			return caller.show(cmd, nodes[i], func(t *output.Table) { fillNode(t, nodes[i], time.Now()) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillNode(t *output.Table, n client.Node, now time.Time) {
	t.Field("node", n.Name)
	t.Field("id", n.ID)
	t.Field("state", nodeState(n, now))
	t.Field("order", n.Order)
	t.Field("zone", n.Zone)
	t.Field("weight", fmt.Sprint(n.Weight))
	t.Field("url", cmp.Or(n.HTTPURL, n.HTTPAddr))
	t.Field("peer", n.PeerAddr)
	t.Field("replicas", fmt.Sprint(n.Replicas))
	t.Field("leads", fmt.Sprint(n.Leads))
	t.Field("disk free", diskFree(n))
	t.Field("clock", fmt.Sprintf("%+.1f ms", n.ClockOffsetMs))
	t.Field("build", n.Build)
	t.Field("reads", fmt.Sprint(n.CommandVersion))
}
