package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/wait"
)

// Cluster is the node's part of the cluster.
type Cluster interface {
	ID() string
	ClusterID() string
	Ready() error // of the node, for calls
	Backup(ctx context.Context, w io.Writer, rate int64) (cluster.BackupSummary, error)
	Backups() *clusterpb.Backups
	SetBackups(ctx context.Context, b *clusterpb.Backups) (changed bool, err error)
}

// Config holds the settings of a schedule.
type Config struct {
	Cluster Cluster
	Depot   backup.Depot
	Every   time.Duration // between the beginnings of two backups
	Keep    int           // number of backups that stay; 0: all
	Rate    int64         // bytes a second; 0: no limit
	Clock   func() time.Time
	Logger  *slog.Logger
}

// Schedule makes backups.
type Schedule struct{ cfg Config }

// New returns a schedule, which does nothing before Run.
func New(cfg Config) *Schedule { return &Schedule{cfg} }

const (
	lookEvery = time.Minute      // the record may change meanwhile
	lookSoon  = time.Second      // a change by another node has arrived by then
	patience  = 10 * time.Second // for a change of the record
)

// Run makes the backups that are due until ctx ends.
func (s *Schedule) Run(ctx context.Context) {
	for {
		record := s.cfg.Cluster.Backups()
		rest := s.untilDue(record)
		if rest <= 0 {
			rest = s.try(ctx, record)
		}
		if !wait.For(ctx, min(rest, lookEvery)) {
			return
		}
	}
}

// untilDue returns the time until the next try. A try of this node itself in the record is of an earlier process.
func (s *Schedule) untilDue(record *clusterpb.Backups) time.Duration {
	if s.cfg.Cluster.Ready() != nil {
		return lookSoon
	}
	if record.GetRunning().GetNode() == s.cfg.Cluster.ID() {
		return 0
	}
	return due(record, s.cfg.Every).Sub(s.cfg.Clock())
}

// try makes one backup, if this node is the one to begin it. It returns the time until the next look at the record.
// The record is the one by which the backup is due: in a later one another node may have begun it.
func (s *Schedule) try(ctx context.Context, record *clusterpb.Backups) time.Duration {
	t := &try{Schedule: s}
	err := t.set(ctx, begin(record, s.cfg.Cluster.ID(), s.cfg.Clock()))
	switch {
	case err == nil:
		t.run(ctx)
	case !errors.Is(err, errConflict) && ctx.Err() == nil:
		s.cfg.Logger.Warn("a backup is due and could not be begun", "err", err)
		return lookEvery
	}
	return lookSoon
}

var (
	errConflict = errors.New("another node has changed the record of the backups")
	errLost     = errors.New("the backup could not be confirmed for two minutes: another node may have begun one")
	errStopped  = errors.New("the node was stopped")
)

// try is a backup that this node has begun.
type try struct {
	*Schedule
	record *clusterpb.Backups // as this node has last changed it; the replica of the control group may lag behind
}

// set changes the record. The error is errConflict if another node has changed it.
func (t *try) set(ctx context.Context, record *clusterpb.Backups) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changed, err := t.cfg.Cluster.SetBackups(ctx, record)
	switch {
	case err != nil:
		return err
	case !changed:
		return errConflict
	}
	t.record = clone(record)
	t.record.Revision++
	return nil
}

// run makes the backup, and records its end.
func (t *try) run(ctx context.Context) {
	kept, err := t.make(ctx)
	if ctx.Err() != nil {
		err = errStopped
	}
	switch {
	case kept == nil:
		kept = &backup.Kept{}
		t.cfg.Logger.Error("the backup failed", "err", err)
	case err != nil:
		t.cfg.Logger.Error("the backup was kept", "place", kept.Place, "err", err)
	default:
		t.cfg.Logger.Info("the backup was kept", "place", kept.Place, "bytes", kept.Bytes, "sha256", kept.SHA256,
			"removed", len(kept.Removed))
	}
	t.conclude(kept, err)
}

// make makes and keeps a backup while this node confirms it.
func (t *try) make(ctx context.Context) (*backup.Kept, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	confirmed := make(chan struct{})
	go func() {
		defer close(confirmed)
		t.confirm(ctx, cancel)
	}()
	defer func() { cancel(nil); <-confirmed }()
	kept, err := backup.Job{
		Depot: t.cfg.Depot, Cluster: t.cfg.Cluster.ClusterID(), Most: t.cfg.Keep,
		Write: func(w io.Writer) (string, error) {
			made, err := t.cfg.Cluster.Backup(ctx, w, t.cfg.Rate)
			return made.SHA256, err
		},
	}.Run(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return kept, err
}

// confirm confirms the backup now and then until ctx ends. It abandons the backup if another node may have begun one.
func (t *try) confirm(ctx context.Context, abandon context.CancelCauseFunc) {
	ticker := time.NewTicker(confirmEvery)
	defer ticker.Stop()
	for seen := t.cfg.Clock(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := t.cfg.Clock()
		t.catchUp()
		if err := t.set(ctx, confirm(t.record, now)); err == nil {
			seen = now
		} else if now.Sub(seen) >= lostAfter-confirmEvery {
			abandon(fmt.Errorf("%w: %w", errLost, err))
			return
		}
	}
}

// catchUp takes over the record of a change that was committed although its answer was lost.
func (t *try) catchUp() {
	if b := t.cfg.Cluster.Backups(); b.GetRevision() > t.record.Revision && owns(b, t.record.Running) {
		t.record = b
	}
}

// conclude records the end of the backup, also after the end of the schedule.
func (t *try) conclude(kept *backup.Kept, failure error) {
	t.catchUp()
	err := t.set(context.Background(), end(t.record, t.cfg.Clock(), kept.Place, kept.Bytes, failure))
	if err != nil {
		t.cfg.Logger.Error("the end of the backup was not recorded", "err", err)
	}
}
