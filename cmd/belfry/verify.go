package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cluster/verify"
)

func newVerify() *cobra.Command {
	var temp string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DATA",
		Short: "Check whether a stopped node's data folder is sound",
		Long: `Check whether a stopped node's data folder is sound: every snapshot is read and
restored, every log is opened as a starting node would open it, and applied.
Nothing is written there; copies of the logs are made elsewhere, one at a time.

The hash is of the shard's state after its last entry: equal on every node
whose log ends at the same index. The exit status is 1 if anything is wrong.`,
		Example: `  belfry verify /var/lib/belfry
  belfry verify /var/lib/belfry --temp /mnt/large`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := verify.Folder(cmd.Context(), args[0], temp)
			if err != nil {
				return err
			}
			err = show(cmd.OutOrStdout(), asJSON, report, func(t *table) { fillReport(t, report) })
			if err == nil && !report.Sound() {
				err = fmt.Errorf("%s is not sound", args[0])
			}
			return err
		},
	}
	cmd.Flags().StringVar(&temp, "temp", "", "`folder` for copies of the logs (default: the system's temporary folder)")
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, jsonUsage)
	return cmd
}

func fillReport(t *table, r *verify.Report) {
	t.row("node %s of cluster %s\n", r.NodeID, cmp.Or(r.ClusterID, "none"))
	t.row("SHARD\tTERM\tLOG\tSNAPSHOT\tAPPLIED\tHASH\tTASKS\tSTATE")
	for _, g := range r.Groups {
		sound := "sound"
		if len(g.Problems) > 0 {
			sound = "NOT SOUND"
		}
		name := fmt.Sprint(g.Number)
		if g.Number == 0 {
			name = "control"
		}
		t.row("%s\t%d\t%d-%d\t%d\t%d\t%s\t%s\t%s",
			name, g.Term, g.First, g.Last, g.Snapshot, g.Applied, g.Hash, tasksOf(g), sound)
	}
	for _, p := range r.Problems {
		t.row("\n%s", p)
	}
	for _, g := range r.Groups {
		for _, p := range g.Problems {
			t.row("\nshard %d: %s", g.Number, p)
		}
	}
	for _, text := range r.Remarks {
		t.row("\nnote: %s", text)
	}
}

func tasksOf(g verify.Group) string {
	var texts []string
	for _, state := range slices.Sorted(maps.Keys(g.Tasks)) {
		texts = append(texts, fmt.Sprintf("%d %s", g.Tasks[state], state))
	}
	return strings.Join(texts, ", ")
}
