package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/backup/depot"
	amounts "github.com/belfryhq/belfry/cluster/size"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/cmd/belfry/internal/progress"
)

// backupFlags are the settings of a backup, as given.
type backupFlags struct {
	caller caller
	to     string
	rate   string
	keep   int
}

func newBackup() *cobra.Command {
	f := &backupFlags{}
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "`target`: a file, a folder, s3://bucket/prefix, or - for the standard output")
	flags.StringVar(&f.rate, "rate", "", "`bytes` a second at most, such as 50MiB (default: no limit)")
	flags.IntVar(&f.keep, "keep", 0, "`number` of backups of this cluster to keep in the folder or bucket; 0 keeps all")
	return cmd
}

func (f *backupFlags) run(cmd *cobra.Command) error {
	rate, err := rateOf("--rate", f.rate)
	if err != nil {
		return cli.WrongUsage(err)
	}
	job, err := f.job()
	if err != nil {
		return cli.WrongUsage(err)
	}
	conn, err := f.caller.connect()
	if err != nil {
		return err
	}
	options := client.BackupOptions{Rate: rate}
	meter := progress.New(cmd.ErrOrStderr())
	defer meter.Close()
	if f.to == "-" {
		made, err := conn.Backup(cmd.Context(), meter.Writer(cmd.OutOrStdout(), "backup", 0), options)
		meter.Close()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d bytes, sha256 %s\n", made.Bytes, made.SHA256)
		return err
	}
	kept, err := keepBackup(cmd.Context(), conn, options, job, meter)
	meter.Close()
	if kept != nil {
		made := madeOf(kept, job.Cluster)
		err = errors.Join(f.caller.show(cmd, made, func(t *output.Table) { fillBackup(t, made) }), err)
	}
	return err
}

// job checks the flags, and returns the job that they describe.
func (f *backupFlags) job() (*depot.Job, error) {
	job := &depot.Job{Most: f.keep}
	var err error
	switch {
	case f.to == "":
		err = errors.New("--to is needed")
	case f.keep < 0:
		err = fmt.Errorf("--keep is %d: 0 or more", f.keep)
	case f.to != "-":
		job.Depot, job.Name, err = depot.At(f.to, os.LookupEnv)
	}
	if err == nil && f.keep > 0 && (f.to == "-" || job.Name != "") {
		err = errors.New("--keep needs a folder or a bucket in --to")
	}
	return job, err
}

// keepBackup makes one backup of the cluster, whose id it sets in the job.
func keepBackup(
	ctx context.Context, conn *client.Client, o client.BackupOptions, job *depot.Job, meter *progress.Meter,
) (*depot.Kept, error) {
	view, err := conn.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	job.Cluster = view.ID
	job.Write = func(w io.Writer) (string, error) {
		made, err := conn.Backup(ctx, meter.Writer(w, "backup", 0), o)
		if err != nil {
			return "", err
		}
		return made.SHA256, nil
	}
	return job.Run(ctx)
}

// rateOf reads a number of bytes a second; empty: 0, for no limit.
func rateOf(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	amount, err := amounts.Parse(text)
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

func madeOf(kept *depot.Kept, cluster string) *madeBackup {
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
