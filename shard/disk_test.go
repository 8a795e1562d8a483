package shard

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

func fastTiming() Timing {
	t := Fast()
	t.HeadStart, t.Calm, t.Patience = 300*time.Millisecond, 300*time.Millisecond, 50*time.Millisecond
	return t
}

// onDisk returns replicas that keep their state in the folders dirs(id).
func onDisk(n int, t testing.TB, dirs func(id string) string) *replicas {
	return newReplicas(t, n, func(cfg *Config) {
		cfg.Timing = fastTiming()
		cfg.SnapshotLog = 100 << 10
		cfg.Registerer = prometheus.NewRegistry()
		disk, err := OpenDisk(cfg.ID, raftdisk.Config{
			Dir: dirs(cfg.NodeID), Existing: cfg.Existing, Fatal: cfg.Fatal, Logger: slog.New(slog.DiscardHandler),
			Registerer: cfg.Registerer,
		})
		assert.NoError(t, err)
		cfg.Storage = disk
	})
}

// commit has the present leader commit commands.
func (c *replicas) commit(cmds ...*fsmpb.Command) {
	c.t.Helper()
	for _, r := range c.leader().Do(c.t.Context(), cmds) {
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
}

// TestKilledAndReopened runs three replicas on real files and copies the files while the replicas run, as a crash of
// all machines would leave them. In replicas opened on the copies, every acknowledged task exists and fires once.
func TestKilledAndReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, crashed := t.TempDir(), t.TempDir()
		c := onDisk(3, t, func(id string) string { return filepath.Join(live, id) })
		c.startAll()
		c.leader()
		due := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
		const rounds, batch = 20, 100
		for round := range rounds {
			var cmds []*fsmpb.Command
			for i := range batch {
				cmds = append(cmds, schedule(fmt.Sprintf("t%02d-%03d", round, i), due))
			}
			c.commit(cmds...)
		}
		for _, id := range c.ids { // one after the other: nothing but the terms of heartbeats is written meanwhile
			assert.NoError(t, os.CopyFS(filepath.Join(crashed, id), os.DirFS(filepath.Join(live, id))))
		}
		c.close()

		again := onDisk(3, t, func(id string) string { return filepath.Join(crashed, id) })
		tune := again.tune
		again.tune = func(cfg *Config) { cfg.Existing = true; tune(cfg) }
		began := time.Now()
		again.startAll()
		if got := again.leader().machine.Counts().Tasks; got != rounds*batch {
			t.Fatalf("%d of %d tasks are left", got, rounds*batch)
		}
		t.Logf("a leader after %v", time.Since(began))
		again.eventually("all delivered", func() bool {
			return again.leader().machine.Counts().ByState[fsmpb.State_STATE_DELIVERED] == rounds*batch
		})
		seen := map[string]bool{}
		for _, a := range again.sink.all() {
			if a.at.Before(due) {
				t.Fatalf("%s came %v early", a.id, due.Sub(a.at))
			}
			seen[a.id] = true
		}
		if len(seen) != rounds*batch {
			t.Errorf("%d of %d tasks arrived", len(seen), rounds*batch)
		}
		again.agree()
	})
}

// TestHandOverOnClose checks that a closing leader gives its leadership away first, much sooner than an election would
// replace it.
func TestHandOverOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := onDisk(3, t, func(id string) string { return filepath.Join(dir, id) })
		c.startAll()
		n := c.leader()
		n.must(t, schedule("a", time.Now().Add(time.Hour)))
		term, id := n.group.Term(), n.cfg.NodeID
		assert.NoError(t, n.Close(context.Background()))
		n.Shard, n.inmem = nil, nil
		next := c.leader(c.others(id)...)
		if got := next.group.Term(); got != term+1 {
			t.Errorf("term %d after %d: it was not handed over", got, term)
		}
		assert.Equal(t, next.state(t, "a"), fsmpb.State_STATE_SCHEDULED, "state")
	})
}

// TestHalfInstalledSnapshot leaves a snapshot ahead of the log, as a crash between a snapshot's install and the log's
// cut does. The replica opens, catches up and can append.
func TestHalfInstalledSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := onDisk(3, t, func(id string) string { return filepath.Join(dir, id) })
		c.startAll()
		away := c.others(c.leader().cfg.NodeID)[0]
		c.kill(away)
		for i := range 2000 {
			c.commit(schedule(fmt.Sprintf("t%d", i%10), time.Now().Add(time.Hour)))
		}
		var n *node
		c.eventually("a snapshot", func() bool {
			n = c.leader()
			first, err := n.cfg.Storage.Log().FirstIndex()
			return err == nil && first > 10
		})
		from := os.DirFS(filepath.Join(dir, n.cfg.NodeID, "snapshots"))
		to := filepath.Join(dir, away, "snapshots")
		assert.NoError(t, os.RemoveAll(to))
		assert.NoError(t, os.CopyFS(to, from))
		c.start(away)
		c.agree()
		c.commit(schedule("after", time.Now().Add(time.Hour)))
		c.agree()
		if got := c.nodes[away].Status().State; got == "shutdown" {
			t.Error(got)
		}
	})
}
