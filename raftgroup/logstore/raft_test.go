package logstore

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// counter is a state machine that counts commands.
type counter struct{ n int }

func (c *counter) Apply(*raft.Log) any { c.n++; return c.n }

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return counted(c.n), nil }

func (c *counter) Restore(r io.ReadCloser) error {
	_, err := fmt.Fscan(r, &c.n)
	return err
}

type counted int

func (c counted) Persist(sink raft.SnapshotSink) error {
	if _, err := fmt.Fprint(sink, int(c)); err != nil {
		return err
	}
	return sink.Close()
}

func (counted) Release() {}

// TestRaftRuns runs a group of one on the stores of Open: it starts, cuts its log behind a snapshot, and finds all
// entries again.
func TestRaftRuns(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, kind Kind) {
		synctest.Test(t, func(t *testing.T) { raftRuns(t, kind) })
	})
}

func raftRuns(t *testing.T, kind Kind) {
	dir := t.TempDir()
	snaps, err := raft.NewFileSnapshotStore(t.TempDir(), 2, io.Discard)
	assert.NoError(t, err)
	for life := range 4 {
		cfg := Config{Dir: dir, Kind: kind, Existing: life > 0}
		if metas, err := snaps.List(); err == nil && len(metas) > 0 {
			cfg.SnapshotIndex, cfg.SnapshotTerm = metas[0].Index, metas[0].Term
		}
		live(t, mustOpen(t, cfg), snaps, life)
	}
}

// live runs the group for a while. Each life finds the entries that the earlier ones applied, and applies a hundred
// more.
func live(t *testing.T, s *Stores, snaps raft.SnapshotStore, life int) {
	t.Helper()
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.LogOutput, cfg.NoLegacyTelemetry = "n1", io.Discard, true
	cfg.HeartbeatTimeout, cfg.ElectionTimeout = 20*time.Millisecond, 20*time.Millisecond
	cfg.LeaderLeaseTimeout, cfg.TrailingLogs = 20*time.Millisecond, 16
	addr, transport := raft.NewInmemTransport("")
	if life == 0 {
		members := raft.Configuration{Servers: []raft.Server{{ID: cfg.LocalID, Address: addr}}}
		assert.NoError(t, raft.BootstrapCluster(cfg, s.Log(), s.Stable(), snaps, transport, members))
	}
	machine := &counter{}
	r, err := raft.NewRaft(cfg, machine, s.Log(), s.Stable(), snaps, transport)
	assert.NoError(t, err)
	for leads := false; !leads; leads = <-r.LeaderCh() {
	}
	for i := range 100 {
		f := r.Apply([]byte("x"), time.Second)
		assert.NoError(t, f.Error())
		got, want := f.Response(), life*100+i+1
		assert.MustEqual[any](t, got, want, "command %d of life %d is counted as", i, life)
	}
	if life%2 == 0 {
		assert.NoError(t, r.Snapshot().Error())
	}
	assert.NoError(t, r.Shutdown().Error())
	mustClose(t, s)
}
