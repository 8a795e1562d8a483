package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cluster/verify"
)

func newVerify() *cobra.Command {
	var temp string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DATA",
		Short: "Look whether a stopped node's data folder is sound",
		Long: `Look whether a stopped node's data folder is sound: every snapshot is read and restored, every log is opened as
a starting node would open it, and applied. Nothing is written there; copies of the logs are made elsewhere, one at a
time.

The hash is of the shard's state after its last entry: equal on every node whose log ends at the same index. The exit
status is 1 if anything is wrong.`,
		Example: `  belfry verify /var/lib/belfry`,
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := verify.Folder(cmd.Context(), args[0], temp)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				err = showReport(cmd.OutOrStdout(), report)
			}
			if err == nil && !report.Sound() {
				err = fmt.Errorf("%s is not sound", args[0])
			}
			return err
		},
	}
	cmd.Flags().StringVar(&temp, "temp", "", "where copies of the logs are made (default: the system's temporary folder)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func showReport(out io.Writer, r *verify.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "node %s of cluster %s\n\n", r.NodeID, cmp.Or(r.ClusterID, "none"))
	_, _ = fmt.Fprintln(w, "SHARD\tTERM\tLOG\tSNAPSHOT\tAPPLIED\tHASH\tTASKS\tSTATE")
	for _, g := range r.Groups {
		sound := "sound"
		if len(g.Problems) > 0 {
			sound = "NOT SOUND"
		}
		name := fmt.Sprint(g.Number)
		if g.Number == 0 {
			name = "control"
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d-%d\t%d\t%d\t%s\t%s\t%s\n",
			name, g.Term, g.First, g.Last, g.Snapshot, g.Applied, g.Hash, tasksOf(g), sound)
	}
	for _, p := range r.Problems {
		_, _ = fmt.Fprintf(w, "\n%s", p)
	}
	for _, g := range r.Groups {
		for _, p := range g.Problems {
			_, _ = fmt.Fprintf(w, "\nshard %d: %s", g.Number, p)
		}
	}
	for _, text := range r.Remarks {
		_, _ = fmt.Fprintf(w, "\nnote: %s\n", text)
	}
	return w.Flush() // with what a write before it failed
}

func tasksOf(g verify.Group) string {
	var texts []string
	for _, state := range slices.Sorted(maps.Keys(g.Tasks)) {
		texts = append(texts, fmt.Sprintf("%d %s", g.Tasks[state], state))
	}
	return strings.Join(texts, ", ")
}
