package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newCluster() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show who is there, and which shard lives where",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			view, err := conn.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return caller.show(cmd, view, func(w io.Writer) { showCluster(w, view) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

// showCluster fills the table; writing into its memory does not fail.
func showCluster(w io.Writer, view *client.Cluster) {
	_, _ = fmt.Fprintf(w, "cluster %s\n\nNODE\tHTTP\tALIVE\tCLOCK\tLEADS\tID\n", view.ID)
	leads := map[string]int{}
	for _, shard := range view.Shards {
		leads[shard.Leader]++
	}
	byName := func(a, b client.Node) int { return strings.Compare(a.Name, b.Name) }
	for _, n := range slices.SortedFunc(slices.Values(view.Nodes), byName) {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%v\t%+.1f ms\t%d\t%s\n",
			n.Name, n.HTTPAddr, n.Alive, n.ClockOffsetMs, leads[n.ID], n.ID)
	}
	_, _ = fmt.Fprint(w, "\nSHARD\tLEADER\tTERM\tTASKS\tREPLICAS\n")
	for _, shard := range view.Shards {
		_, _ = fmt.Fprintf(w, "%d\t%s\t%d\t%d\t", shard.ID, nodeName(view, shard.Leader), shard.Term, shard.Tasks)
		for _, replica := range shard.Replicas {
			state := replica.State
			if replica.Diverged {
				state += ", DIVERGED"
			}
			_, _ = fmt.Fprintf(w, "%s (%s, %d)  ", nodeName(view, replica.Node), state, replica.Applied)
		}
		_, _ = fmt.Fprintln(w)
	}
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
