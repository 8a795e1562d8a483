package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newVerify() *cobra.Command {
	var temp string
	cmd := cli.LocalVerb(&cobra.Command{
		Use:   "verify DATA|BACKUP",
		Short: "Check whether a stopped node's data folder, or a backup, is sound",
		Long: `Check whether a stopped node's data folder, or a backup, is sound.

Verify reads and restores every snapshot of a folder. It opens every log as a
starting node would, and applies it. It writes nothing there: copies of the logs
are made elsewhere, one at a time.

A backup is a file, an object s3://bucket/key, or - for the standard input.
Verify compares the checksums of all its parts and of the whole, and restores
the state of each shard in memory. It reports damage with its place.

The hash is of the shard's state after its last entry: equal on every node
whose log ends at the same index. The exit status is 1 if anything is wrong.`,
		Example: `  belfry verify /var/lib/belfry
  belfry verify /var/lib/belfry --temp /mnt/large
  belfry verify /var/backups/belfry.backup`,
	}, func(c *cli.Call) error {
		if info, err := os.Stat(c.Args[0]); err != nil || !info.IsDir() {
			return verifyBackup(c)
		}
		report, err := recovery.VerifyFolder(c.Context(), c.Args[0], temp)
		if err != nil {
			return err
		}
		lookAtAudit(report, filepath.Join(c.Args[0], "audit", "audit.jsonl"))
		return soundness(c, report.Sound(), output.Show(c.Out, report, fillReport))
	})
	cmd.Flags().StringVar(&temp, "temp", "", "`folder` for copies of the logs (default: the system's temporary folder)")
	return cmd
}

// soundness returns the error of a report that was printed: err, or that the argument is not sound.
func soundness(c *cli.Call, sound bool, err error) error {
	if err == nil && !sound {
		err = fmt.Errorf("%s is not sound", c.Args[0])
	}
	return err
}

// lookAtAudit adds the faults of the audit log's newest files, if they are in the data folder.
func lookAtAudit(r *recovery.FolderReport, changes string) {
	for _, path := range []string{changes, audit.RefusalsPath(changes)} {
		if err := audit.Check(path); err != nil {
			r.Problems = append(r.Problems, err.Error()+"; the node skips such lines")
		}
		if _, err := os.Stat(audit.DamagedPath(path)); err == nil {
			r.Remarks = append(r.Remarks, audit.DamagedPath(path)+" holds lines of the audit log that were no records")
		}
	}
}

func verifyBackup(c *cli.Call) error {
	from, err := openBackup(c, c.Args[0])
	if err != nil {
		return err
	}
	report, err := recovery.VerifyBackup(c.Context(), from)
	if err = errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("%s: %w", c.Args[0], err)
	}
	return soundness(c, report.Sound(), output.Show(c.Out, report, fillBackupReport))
}

func fillBackupReport(t *output.Table, r *recovery.BackupReport) {
	t.Row("backup of cluster %s of %s\n", cmp.Or(r.ClusterID, "none"), cmp.Or(r.MadeAt, "an unknown time"))
	t.Row("%d bytes\tsha256 %s\tpolicies of %d queues\n", r.Bytes, cmp.Or(r.SHA256, "none"), r.Policies)
	t.Columns("SHARD", "TERM", "INDEX", "CUT", "ADVANCED TO", "HASH", "TASKS").Add()
	for _, s := range r.Shards {
		t.Row("%d\t%d\t%d\t%s\t%s\t%s\t%s", s.Number, s.Term, s.Index, s.CutAt, s.Position, s.Hash, statesOf(s.Tasks))
	}
	for _, p := range r.Problems {
		t.Row("\n%s", p)
	}
}

func fillReport(t *output.Table, r *recovery.FolderReport) {
	t.Row("node %s of cluster %s\n", r.NodeID, cmp.Or(r.ClusterID, "none"))
	t.Columns("SHARD", "TERM", "LOG", "SNAPSHOT", "APPLIED", "HASH", "TASKS", "STATE").Add()
	for _, g := range r.Groups {
		sound := "sound"
		if len(g.Problems) > 0 {
			sound = "NOT SOUND"
		}
		name := fmt.Sprint(g.Number)
		if g.Number == 0 {
			name = "control"
		}
		t.Row("%s\t%d\t%d-%d\t%d\t%d\t%s\t%s\t%s",
			name, g.Term, g.First, g.Last, g.Snapshot, g.Applied, g.Hash, statesOf(g.Tasks), sound)
	}
	for _, p := range r.Problems {
		t.Row("\n%s", p)
	}
	for _, g := range r.Groups {
		for _, p := range g.Problems {
			t.Row("\nshard %d: %s", g.Number, p)
		}
	}
	for _, text := range r.Remarks {
		t.Row("\nnote: %s", text)
	}
}

// statesOf describes numbers of tasks by state.
func statesOf(tasks map[string]int) string { return strings.Join(listed(tasks, "%[2]d %[1]s"), ", ") }
