package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/cmd/belfry/internal/progress"
	"github.com/belfryhq/belfry/node"
)

// backupFlags are the settings of a backup, as given.
type backupFlags struct {
	to   string
	rate string
	keep int
}

func newBackup() *cobra.Command {
	var f backupFlags
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "backup --to FILE",
		Short: "Write a backup of a running cluster",
		Long: `Write a backup of a running cluster.

The backup is a consistent copy of each shard while the cluster works, with all
that was acknowledged before the command. It is read back and checked before it
gets its name, so that nothing incomplete is ever found under that name.

--to takes a file; a folder or s3://bucket/prefix, where each backup gets a name
with the cluster's id and the time; or - for the standard output. Buckets need
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL for a store other
than AWS.

The nodes make backups on a schedule by themselves: belfry serve --backup-every.

A backup holds the payloads and the secrets of the queues' policies. Files are
readable by their owner only.`,
		Example: `  belfry backup --to /var/backups/belfry.backup
  belfry backup --to /var/backups/ --keep 28 \
    --addr http://n1:8400,http://n2:8400
  AWS_ENDPOINT_URL=https://s3.example belfry backup --to s3://backups/belfry`,
	}, f.run)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "`target`: a file, a folder, s3://bucket/prefix, or - for the standard output")
	flags.StringVar(&f.rate, "rate", "", "`bytes` a second at most, such as 50MiB (default: no limit)")
	flags.IntVar(&f.keep, "keep", 0, "`number` of backups of this cluster to keep in the folder or bucket; 0 keeps all")
	return cmd
}

func (f *backupFlags) run(c *cli.Call) error {
	rate, err := rateOf("--rate", f.rate)
	if err != nil {
		return cli.WrongUsage(err)
	}
	job, err := f.job()
	if err != nil {
		return cli.WrongUsage(err)
	}
	meter := progress.New(c.Stderr())
	defer meter.Close()
	write := func(w io.Writer) (*client.Backup, error) {
		return c.Client.Backup(c.Context(), meter.Writer(w, "backup", 0), client.BackupOptions{Rate: rate})
	}
	if f.to == "-" {
		made, err := write(c.Stdout())
		meter.Close()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.Stderr(), "%d bytes, sha256 %s\n", made.Bytes, made.SHA256)
		return err
	}
	view, err := c.Client.Cluster(c.Context())
	if err != nil {
		return err
	}
	job.Cluster = view.ID
	job.Write = func(w io.Writer) (string, error) {
		made, err := write(w)
		if err != nil {
			return "", err
		}
		return made.SHA256, nil
	}
	kept, err := job.Run(c.Context())
	meter.Close()
	if kept != nil {
		err = errors.Join(output.Show(c.Out, madeOf(kept, job.Cluster), fillBackup), err)
	}
	return err
}

// job checks the flags, and returns the job that they describe.
func (f *backupFlags) job() (*backup.Job, error) {
	job := &backup.Job{Most: f.keep}
	var err error
	switch {
	case f.to == "":
		err = errors.New("--to is needed")
	case f.keep < 0:
		err = fmt.Errorf("--keep is %d: 0 or more", f.keep)
	case f.to != "-":
		job.Depot, job.Name, err = backup.DepotAt(f.to, os.LookupEnv)
	}
	if err == nil && f.keep > 0 && (f.to == "-" || job.Name != "") {
		err = errors.New("--keep needs a folder or a bucket in --to")
	}
	return job, err
}

// rateOf reads a number of bytes a second; empty: 0, for no limit.
func rateOf(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	amount, err := headroom.ParseAmount(text)
	if err != nil || amount.Of(0) < 1<<10 || amount.Of(0) > 1024<<30 {
		return 0, fmt.Errorf("%s is %q: a number of bytes such as 50MiB, from 1KiB to 1024GiB", flag, text)
	}
	return int64(amount.Of(0)), nil
}

// madeBackup describes a backup that was kept.
type madeBackup struct {
	Place     string      `json:"place"`
	ClusterID string      `json:"cluster_id"`
	Bytes     uint64      `json:"bytes"`
	SHA256    string      `json:"sha256"`
	Shards    []madeShard `json:"shards"`
	Removed   []string    `json:"removed,omitempty"`
}

type madeShard struct {
	Shard uint32 `json:"shard"`
	Index uint64 `json:"index"`
	CutAt string `json:"cut_at"` // the leader's wall clock
}

func madeOf(kept *backup.Kept, cluster string) *madeBackup {
	made := &madeBackup{
		Place: kept.Place, ClusterID: cluster, Bytes: kept.Bytes, SHA256: kept.SHA256, Removed: kept.Removed,
	}
	for _, s := range kept.Shards {
		at := time.UnixMilli(s.CutMs).UTC().Format("2006-01-02T15:04:05.000Z")
		made.Shards = append(made.Shards, madeShard{Shard: s.Shard, Index: s.Index, CutAt: at})
	}
	return made
}

func fillBackup(t *output.Table, b *madeBackup) {
	t.Row("%s", b.Place)
	t.Field("cluster", b.ClusterID)
	t.Field("bytes", fmt.Sprint(b.Bytes))
	t.Field("sha256", b.SHA256)
	for _, s := range b.Shards {
		t.Field("shard", fmt.Sprintf("%d, as of %s, index %d", s.Shard, s.CutAt, s.Index))
	}
	for _, place := range b.Removed {
		t.Field("removed", place)
	}
}

func newRestore() *cobra.Command {
	var cfg recovery.RestoreConfig
	cmd := cli.LocalVerb(&cobra.Command{
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
	}, func(c *cli.Call) error {
		if err := checkRestore(cfg); err != nil {
			return cli.WrongUsage(err)
		}
		from, err := openBackup(c, c.Args[0])
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was only read
		meter := progress.New(c.Stderr())
		defer meter.Close()
		cfg.From = meter.Reader(from, "restore", sizeOf(from))
		report, err := recovery.Restore(c.Context(), cfg)
		meter.Close()
		if err != nil {
			return err
		}
		return output.Show(c.Out, report, func(t *output.Table, r *recovery.RestoreReport) { fillRestore(t, r, cfg) })
	})
	flags := cmd.Flags()
	flags.StringVar(&cfg.Dir, "data", "", "`folder` to fill: empty, or absent")
	flags.IntVar(&cfg.Shards, "shards", 0, "`number` of shards of the new cluster (default: as in the backup)")
	flags.StringVar((*string)(&cfg.Overdue), "overdue", "fire",
		"`treatment` of tasks that fell due meanwhile: fire, hold or dead")
	addLogStore(cmd, &cfg.LogStore)
	cli.CompleteWords(cmd, "overdue", "fire", "hold", "dead")
	return cmd
}

// addLogStore adds --log-store.
func addLogStore(cmd *cobra.Command, kind *string) {
	cmd.Flags().StringVar(kind, "log-store", node.DefaultConfig().LogStore,
		"`kind` of store for the log, as of serve: wal or boltdb")
	cli.CompleteWords(cmd, "log-store", "wal", "boltdb")
}

func checkRestore(cfg recovery.RestoreConfig) error {
	switch {
	case cfg.Dir == "":
		return errors.New("--data is needed")
	case cfg.Shards < 0 || cfg.Shards > cluster.MaxShards:
		return fmt.Errorf("--shards is %d: 1 to %d", cfg.Shards, cluster.MaxShards)
	case !slices.Contains([]recovery.Overdue{recovery.Fire, recovery.Hold, recovery.Dead}, cfg.Overdue):
		return fmt.Errorf("--overdue is %q: fire, hold or dead", cfg.Overdue)
	}
	return nil
}

// openBackup opens a file, an object of a bucket, or the standard input.
func openBackup(c *cli.Call, target string) (io.ReadCloser, error) {
	if target == "-" {
		return io.NopCloser(c.In()), nil
	}
	return backup.Open(c.Context(), target, os.LookupEnv)
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

func fillRestore(t *output.Table, r *recovery.RestoreReport, cfg recovery.RestoreConfig) {
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
	case cfg.Overdue == recovery.Hold:
		t.Row("\nTo release a queue, once the node runs: belfry queue resume QUEUE")
	case cfg.Overdue == recovery.Fire && r.Overdue > 0:
		t.Row("\nTo hold these tasks back instead: remove the folder, and restore again with --overdue hold or dead")
	}
}

func overdueText(r *recovery.RestoreReport, treatment recovery.Overdue) string {
	switch treatment {
	case recovery.Hold:
		return fmt.Sprintf("%d tasks fell due since the backup; their queues are paused", r.Overdue)
	case recovery.Dead:
		return fmt.Sprintf("%d tasks fell due since the backup; %d became dead letters", r.Overdue, r.Buried)
	}
	return fmt.Sprintf("%d tasks fell due since the backup; they are attempted as soon as the node runs", r.Overdue)
}
