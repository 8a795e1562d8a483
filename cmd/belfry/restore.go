package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/backup/depot"
	"github.com/belfryhq/belfry/cluster/restore"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/cmd/belfry/internal/progress"
	"github.com/belfryhq/belfry/node"
)

func newRestore() *cobra.Command {
	var cfg restore.Config
	var overdue string
	var form output.Flags
	cmd := &cobra.Command{
		Use:   "restore BACKUP --data DIR",
		Short: "Make the data folder of a new cluster of one node out of a backup",
		Long: `Make the data folder of a new cluster of one node out of a backup. No node may
run there; belfry serve --data DIR starts it afterwards. The cluster gets a new
id, and may have another number of shards.

Attempts and leases that were under way at the backup are due again: a receiver
may get one twice, with the same webhook-id. Tasks that fell due between the
backup and the restore are treated by --overdue:

  fire  attempt them as soon as the node runs
  hold  pause every queue with a task that is due, until belfry queue resume
  dead  make dead letters of them, until belfry dead replay or drop

If the old cluster still runs, both deliver.`,
		Example: `  belfry restore /var/backups/belfry.backup --data /var/lib/belfry
  belfry restore s3://backups/belfry/now.backup --data /var/lib/belfry \
    --shards 12 --overdue hold
  belfry backup --to - | belfry restore - --data /var/lib/belfry`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Overdue = restore.Overdue(overdue)
			if err := checkRestore(cfg); err != nil {
				return cli.WrongUsage(err)
			}
			from, err := openBackup(cmd, args[0])
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }() // it was only read
			meter := progress.New(cmd.ErrOrStderr())
			defer meter.Close()
			cfg.From = meter.Reader(from, "restore", sizeOf(from))
			report, err := restore.Run(cmd.Context(), cfg)
			meter.Close()
			if err != nil {
				return err
			}
			return form.Show(cmd.OutOrStdout(), report, func(t *output.Table) { fillRestore(t, report, cfg) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cfg.Dir, "data", "", "`folder` to fill: empty, or absent")
	flags.IntVar(&cfg.Shards, "shards", 0, "`number` of shards of the new cluster (default: as in the backup)")
	flags.StringVar(&overdue, "overdue", "fire", "`treatment` of tasks that fell due meanwhile: fire, hold or dead")
	flags.StringVar(&cfg.LogStore, "log-store", node.DefaultConfig().LogStore,
		"`kind` of store for the log, as of serve: wal or boltdb")
	form.Add(cmd)
	cli.CompleteWords(cmd, "overdue", "fire", "hold", "dead")
	cli.CompleteWords(cmd, "log-store", "wal", "boltdb")
	return cmd
}

func checkRestore(cfg restore.Config) error {
	switch {
	case cfg.Dir == "":
		return errors.New("--data is needed")
	case cfg.Shards < 0 || cfg.Shards > cluster.MaxShards:
		return fmt.Errorf("--shards is %d: 1 to %d", cfg.Shards, cluster.MaxShards)
	case !slices.Contains([]restore.Overdue{restore.Fire, restore.Hold, restore.Dead}, cfg.Overdue):
		return fmt.Errorf("--overdue is %q: fire, hold or dead", cfg.Overdue)
	}
	return nil
}

// openBackup opens a file, an object of a bucket, or the standard input.
func openBackup(cmd *cobra.Command, target string) (io.ReadCloser, error) {
	if target == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	return depot.Open(cmd.Context(), target, os.LookupEnv)
}

// sizeOf returns the number of bytes of a file, or 0 for another source.
func sizeOf(from io.Reader) int64 {
	file, ok := from.(*os.File)
	if !ok {
		return 0
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

func fillRestore(t *output.Table, r *restore.Report, cfg restore.Config) {
	t.Row("cluster %s, made of the backup of cluster %s of %s\n", r.ClusterID, r.From, r.MadeAt)
	t.Field("data", cfg.Dir)
	t.Field("shards", fmt.Sprint(r.Shards))
	t.Field("tasks", statesOf(r.Tasks))
	t.Field("given back", fmt.Sprintf("%d attempts and leases that were under way", r.GivenBack))
	t.Field("overdue", overdueText(r, cfg.Overdue))
	if r.Keys > 0 {
		t.Field("keys", fmt.Sprintf("%d, as at the backup: revoke those again that were revoked since", r.Keys))
	}
	if len(r.ClusterKeys) > 0 {
		t.Field("cluster keys", fmt.Sprintf("the secrets of queues need %s in the node's --cluster-key-file",
			strings.Join(r.ClusterKeys, " and ")))
	}
	if len(r.Queues) == 0 {
		return
	}
	t.Row("")
	t.Columns("QUEUE", "DUE AT THE BACKUP", "FELL DUE SINCE", "PAUSED").Add()
	for _, q := range r.Queues {
		t.Row("%s\t%d\t%d\t%v", q.Queue, q.Before, q.Since, q.Paused)
	}
	switch {
	case cfg.Overdue == restore.Hold:
		t.Row("\nTo release a queue, once the node runs: belfry queue resume QUEUE")
	case cfg.Overdue == restore.Fire && r.Overdue > 0:
		t.Row("\nTo hold these tasks back instead: remove the folder, and restore again with --overdue hold or dead")
	}
}

func overdueText(r *restore.Report, treatment restore.Overdue) string {
	switch treatment {
	case restore.Hold:
		return fmt.Sprintf("%d tasks fell due since the backup; their queues are paused", r.Overdue)
	case restore.Dead:
		return fmt.Sprintf("%d tasks fell due since the backup; %d became dead letters", r.Overdue, r.Buried)
	}
	return fmt.Sprintf("%d tasks fell due since the backup; they are attempted as soon as the node runs", r.Overdue)
}
