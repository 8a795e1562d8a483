package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Job makes one backup and keeps it.
type Job struct {
	Depot   Depot
	Name    string // in the depot; empty: the cluster's id and the time
	Cluster string // id of the cluster
	Most    int    // number of the cluster's backups that stay, if Name is empty; 0: all
	// Write writes the backup, and returns its SHA-256 as its last piece has it.
	Write func(io.Writer) (sha256 string, err error)
}

// Kept describes a backup that was kept and read back.
type Kept struct {
	Place   string
	Bytes   uint64
	SHA256  string // of all bytes before the last piece, in hexadecimal
	Shards  []*clusterpb.BackupShard
	Removed []string // places of older backups
}

const (
	jobPrefix = "belfry-"
	jobSuffix = ".backup"
	jobTime   = "20060102T150405Z"
)

// Run makes the backup, reads it back, and then removes the oldest backups of the cluster beyond Most. If only the
// removal fails, the backup stays, and both results are set.
func (j Job) Run(ctx context.Context) (*Kept, error) {
	prefix := jobPrefix + j.Cluster + "-"
	name := j.Name
	if name == "" {
		name = prefix + time.Now().UTC().Format(jobTime) + jobSuffix
	}
	kept := &Kept{Place: j.Depot.Place(name)}
	write := func(w io.Writer) (err error) {
		kept.SHA256, err = j.Write(w)
		return err
	}
	check := func(r io.Reader) error { return kept.check(r, j.Cluster) }
	if err := j.Depot.Put(ctx, name, write, check); err != nil {
		return nil, err
	}
	if j.Name != "" || j.Most == 0 {
		return kept, nil
	}
	if err := j.thin(ctx, prefix, kept); err != nil {
		return kept, fmt.Errorf("%s was kept, but older backups could not be removed: %w", kept.Place, err)
	}
	return kept, nil
}

// check reads a kept backup back, and compares it with the one that was written.
func (k *Kept) check(from io.Reader, cluster string) error {
	r, err := NewReader(from)
	if err == nil {
		err = r.Drain()
	}
	switch {
	case err != nil:
		return err
	case r.Header().ClusterId != cluster || r.Sum() != k.SHA256:
		return errors.New("another backup came back than was written")
	}
	k.Bytes, k.Shards = r.Bytes(), r.Header().Shards
	return nil
}

// thin removes the oldest backups beyond Most. Their names sort by time.
func (j Job) thin(ctx context.Context, prefix string, kept *Kept) error {
	names, err := j.Depot.List(ctx, prefix)
	if err != nil {
		return err
	}
	var made []string
	for _, name := range names {
		if strings.HasSuffix(name, jobSuffix) {
			made = append(made, name)
		}
	}
	for _, name := range made[:max(len(made)-j.Most, 0)] {
		if err := j.Depot.Remove(ctx, name); err != nil {
			return err
		}
		kept.Removed = append(kept.Removed, j.Depot.Place(name))
	}
	return nil
}
