package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/node/internal/backups"
)

// BackupConfig says where and how often backups of the cluster are made. One of the nodes with such settings makes each
// backup.
type BackupConfig struct {
	To    string        // a folder, or s3://bucket/prefix with credentials in the environment; empty: none are made
	Every time.Duration // between the beginnings of two backups
	Keep  int           // number of backups that stay; 0: all
	Rate  int64         // bytes a second; 0: no limit
}

// Bounds of a BackupConfig.
const (
	MinBackupEvery = time.Minute
	MinBackupRate  = 1 << 10
)

// depot returns the depot of the backups, or a *SettingError.
func (c *BackupConfig) depot() (backup.Depot, error) {
	d, name, err := backup.DepotAt(c.To, os.LookupEnv)
	if err == nil && name != "" {
		err = fmt.Errorf("%s is neither a folder nor s3://bucket/prefix", c.To)
	}
	if err != nil {
		return nil, &SettingError{"backup-to", err}
	}
	return d, nil
}

func (c *BackupConfig) validate() error {
	if c.To == "" {
		if *c != (BackupConfig{}) {
			return &SettingError{"backup-to", errors.New("is missing beside the other settings of backups")}
		}
		return nil
	}
	switch {
	case c.Every < MinBackupEvery:
		return &SettingError{"backup-every", fmt.Errorf("%v is less than %v", c.Every, MinBackupEvery)}
	case c.Keep < 0:
		return &SettingError{"backup-keep", fmt.Errorf("%d is less than 0", c.Keep)}
	case c.Rate != 0 && c.Rate < MinBackupRate:
		return &SettingError{"backup-rate", fmt.Errorf("%d bytes a second is less than %d", c.Rate, MinBackupRate)}
	}
	_, err := c.depot()
	return err
}

// startBackups starts the schedule of backups, if there is one. Every node shows the metrics.
func (n *Node) startBackups(context.Context) error {
	if err := n.registry.Register(backups.Collector(n.cluster.Backups)); err != nil {
		return err
	}
	cfg := &n.cfg.Backups
	if cfg.To == "" {
		return nil
	}
	to, err := cfg.depot()
	if err != nil {
		return err
	}
	schedule := backups.New(backups.Config{
		Cluster: n.cluster, Depot: to, Every: cfg.Every, Keep: cfg.Keep, Rate: cfg.Rate, Clock: n.machineClock(),
		Logger: n.log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		schedule.Run(ctx)
	}()
	n.onStop(func() error { cancel(); <-done; return nil })
	return nil
}
