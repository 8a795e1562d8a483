package cluster

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// BackupSummary describes a backup that was written whole.
type BackupSummary = backup.Summary

// Backup writes a backup of the cluster to w, at rate bytes a second at most; see backup.Taker.
func (n *Node) Backup(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error) {
	summary, err := n.taker.Backup(ctx, w, rate)
	n.backups.note(n.cfg.Clock(), err)
	return summary, err
}

// backups remembers the outcome of the newest backups through this node.
type backups struct {
	mu      sync.Mutex
	outcome *clusterpb.BackupOutcome // nil: there was none; never changed
}

// note records the end of a backup.
func (b *backups) note(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := &clusterpb.BackupOutcome{WholeMs: now.UnixMilli()}
	if err != nil {
		next = &clusterpb.BackupOutcome{
			WholeMs: b.outcome.GetWholeMs(), FailedMs: now.UnixMilli(), Error: err.Error(),
		}
	}
	b.outcome = next
}

func (b *backups) last() *clusterpb.BackupOutcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcome
}

// Backups returns the record of the scheduled backups as this node knows it. The caller must not change it.
func (n *Node) Backups() *clusterpb.Backups { return n.control.State().GetBackups() }

// SetBackups replaces the record of the scheduled backups, on any node, and waits until the change is committed. It
// changes nothing, and returns false, if the record has another revision by now.
func (n *Node) SetBackups(ctx context.Context, b *clusterpb.Backups) (changed bool, err error) {
	set := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetBackups{SetBackups: &clusterpb.SetBackups{Backups: b}}}
	reply, err := n.control.Change(ctx, &clusterpb.ControlChange{Entry: set})
	return err == nil && !reply.Conflict, err
}
