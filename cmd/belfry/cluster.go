package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newCluster() *cobra.Command {
	return group(&cobra.Command{
		Use:     "cluster",
		Short:   "See the nodes and shards of a cluster",
		Example: `  belfry cluster status`,
	}, newClusterStatus())
}

func newClusterStatus() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, and each shard with its leader and replicas",
		Example: `  belfry cluster status
  belfry cluster status --json | jq '[.shards[].tasks] | add'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			view, err := conn.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return caller.show(cmd, view, func(t *table) { fillCluster(t, view) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillCluster(t *table, view *client.Cluster) {
	t.row("cluster %s, command version %d\n\nNODE\tHTTP\tZONE\tWEIGHT\tALIVE\tCLOCK\tLEADS\tREADS\tID", view.ID,
		view.CommandVersion)
	leads := map[string]int{}
	for _, shard := range view.Shards {
		leads[shard.Leader]++
	}
	byName := func(a, b client.Node) int { return strings.Compare(a.Name, b.Name) }
	for _, n := range slices.SortedFunc(slices.Values(view.Nodes), byName) {
		t.row("%s\t%s\t%s\t%d\t%v\t%+.1f ms\t%d\t%d\t%s", n.Name, n.HTTPAddr, cmp.Or(n.Zone, "-"), n.Weight, n.Alive,
			n.ClockOffsetMs, leads[n.ID], n.CommandVersion, n.ID)
	}
	t.row("\nSHARD\tLEADER\tTERM\tTASKS\tREPLICAS")
	for _, shard := range view.Shards {
		t.row("%d\t%s\t%d\t%d\t%s", shard.ID, nodeName(view, shard.Leader), shard.Term, shard.Tasks, replicas(view, shard))
	}
	if b := view.Backups; b != nil {
		fillBackups(t, view, b)
	}
}

func fillBackups(t *table, view *client.Cluster, b *client.Backups) {
	t.row("\nBACKUP\tBEGUN\tENDED OR SEEN\tNODE\tBYTES\tPLACE OR REASON")
	for _, row := range []struct {
		name string
		try  *client.BackupTry
	}{{"running", b.Running}, {"last kept", b.LastKept}, {"last failed", b.LastFailed}} {
		if try := row.try; try != nil {
			t.row("%s\t%s\t%s\t%s\t%d\t%s", row.name, try.BegunAt.Format(time.RFC3339), try.SeenAt.Format(time.RFC3339),
				nodeName(view, try.Node), try.Bytes, strings.TrimSpace(try.Place+" "+try.Error))
		}
	}
}

func replicas(view *client.Cluster, shard client.Shard) string {
	var list []string
	for _, replica := range shard.Replicas {
		state := replica.State
		if replica.Diverged {
			state += ", DIVERGED"
		}
		list = append(list, fmt.Sprintf("%s (%s, %d)", nodeName(view, replica.Node), state, replica.Applied))
	}
	return strings.Join(list, "  ")
}

func nodeName(view *client.Cluster, id string) string {
	if id == "" {
		return "none"
	}
	if n := view.Node(id); n != nil {
		return n.Name
	}
	return id
}
