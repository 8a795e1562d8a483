package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/backup"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// pausing calls once after the first megabyte, and goes on writing.
type pausing struct {
	bytes.Buffer
	once func()
}

func (p *pausing) Write(b []byte) (int, error) {
	if p.once != nil && p.Len() > 1<<20 {
		p.once()
		p.once = nil
	}
	return p.Buffer.Write(b)
}

// fillLarge schedules tasks of 24 MB in all, more than the buffers of a connection hold.
func fillLarge(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	payload := bytes.Repeat([]byte("large "), 5000)
	for from := range 16 {
		var cmds []*fsmpb.Command
		for i := range 50 {
			cmd := schedule(fmt.Sprint("large-", from, "-", i), time.Hour)
			cmd.GetSchedule().Spec.Payload = payload
			cmds = append(cmds, cmd)
		}
		mustDo(t, c.Node(0), cmds...)
	}
}

// The death of a node that sends the state of its shards ends the backup with an error, and leaves no whole stream.
func TestBackupEndsWithALeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		fillLarge(t, c)
		out := &pausing{once: func() { c.Crash(2) }}
		_, err := c.Node(0).Backup(t.Context(), out, 0)
		if err == nil || out.once != nil {
			t.Fatalf("%v, %d bytes", err, out.Len())
		}
		t.Log(err)
		r, err := backup.NewReader(bytes.NewReader(out.Bytes()))
		if err == nil {
			err = r.Drain()
		}
		var damage *backup.DamageError
		if !errors.As(err, &damage) || !strings.Contains(damage.Reason, "ends") {
			t.Errorf("the stream: %v", err)
		}
	})
}

// A backup of a cluster whose shards lack a majority fails before its first byte.
func TestBackupWithoutLeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		c.Crash(1)
		c.Crash(2)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var out bytes.Buffer
		if _, err := c.Node(0).Backup(ctx, &out, 0); !errors.Is(err, task.ErrNotProposed) || ctx.Err() != nil {
			t.Errorf("%v", err)
		}
		if out.Len() > 100 { // at most a pause
			t.Errorf("%d bytes were written", out.Len())
		}
	})
}

// A caller that leaves ends the backup, also while the shards are being cut.
func TestBackupEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Node(0).Backup(ctx, io.Discard, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		fillLarge(t, c)
		if _, err := c.Node(0).Backup(ctx, &pausing{once: cancel}, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// The record of the scheduled backups is changed through any node, and only on the basis of its present revision.
func TestRecordOfBackups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		for i := range 3 {
			record := &clusterpb.Backups{Revision: uint64(i), Running: &clusterpb.BackupTry{Node: fmt.Sprint("n", i)}}
			if changed, err := c.Node(i).SetBackups(t.Context(), record); err != nil || !changed {
				t.Fatalf("node %d: %v, %v", i, changed, err)
			}
			if changed, err := c.Node((i+1)%3).SetBackups(t.Context(), record); err != nil || changed {
				t.Errorf("with an old revision: %v, %v", changed, err)
			}
		}
		for i := range 3 {
			c.Until("every node has the record", func() error {
				if b := c.Node(i).Backups(); b.GetRevision() != 3 || b.GetRunning().GetNode() != "n2" {
					return fmt.Errorf("node %d has %v", i, b)
				}
				return nil
			})
		}
	})
}
