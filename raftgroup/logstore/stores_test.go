package logstore

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/internal/logcache"
)

func TestParseKind(t *testing.T) {
	for in, want := range map[string]Kind{"": WAL, "wal": WAL, "boltdb": BoltDB} {
		if got, err := ParseKind(in); err != nil || got != want {
			t.Errorf("ParseKind(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	_, err := ParseKind("Bolt")
	assert.Error(t, err, "an unknown kind was accepted")
}

func TestOpenRefusesBadConfig(t *testing.T) {
	fatal := func(error) {}
	for name, cfg := range map[string]Config{
		"no folder": {Fatal: fatal},
		"no fatal":  {Dir: t.TempDir()},
		"kind":      {Dir: t.TempDir(), Fatal: fatal, Kind: "x"},
		"timeout":   {Dir: t.TempDir(), Fatal: fatal, WriteTimeout: -1},
	} {
		_, err := Open(cfg)
		assert.Error(t, err, "%s: opened", name)
	}
}

// TestLogIsMonotonic checks that Raft empties a log of either kind for a snapshot, through the cache, too.
func TestLogIsMonotonic(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		cache := logcache.New(mustOpen(t, Config{Dir: t.TempDir(), Kind: kind}).Log(), 1<<10)
		if !cache.IsMonotonic() {
			t.Error("it is not")
		}
	})
}

func TestLogSemantics(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		dir := t.TempDir()
		s := mustOpen(t, Config{Dir: dir, Kind: kind})
		steps := []struct {
			name        string
			do          func(raft.LogStore) error
			first, last uint64
			snapshot    uint64
		}{
			{"new", func(raft.LogStore) error { return nil }, 0, 0, 0},
			{"store nothing", func(l raft.LogStore) error { return l.StoreLogs(nil) }, 0, 0, 0},
			{"store one", func(l raft.LogStore) error { return l.StoreLog(entry(1, 1)) }, 1, 1, 0},
			{"store many", func(l raft.LogStore) error { return l.StoreLogs(entries(2, 200, 1)) }, 1, 200, 0},
			{"cut the head", func(l raft.LogStore) error { return l.DeleteRange(1, 50) }, 51, 200, 50},
			{"cut the head again", func(l raft.LogStore) error { return l.DeleteRange(1, 60) }, 61, 200, 60},
			{"cut the tail", func(l raft.LogStore) error { return l.DeleteRange(151, 200) }, 61, 150, 60},
			{"cut nothing", func(l raft.LogStore) error { return l.DeleteRange(151, 200) }, 61, 150, 60},
			{"store again", func(l raft.LogStore) error { return l.StoreLogs(entries(151, 300, 1)) }, 61, 300, 60},
			{"cut head to the last", func(l raft.LogStore) error { return l.DeleteRange(61, 299) }, 300, 300, 299},
			{"cut all", func(l raft.LogStore) error { return l.DeleteRange(300, 300) }, 0, 0, 300},
			{"store behind a gap", func(l raft.LogStore) error { return l.StoreLogs(entries(500, 510, 1)) }, 500, 510, 499},
		}
		for _, step := range steps {
			assert.NoError(t, step.do(s.Log()), "%s", step.name)
			mustHold(t, s.Log(), step.first, step.last, 1)
			mustClose(t, s)
			s = mustOpen(t, Config{Dir: dir, Kind: kind, SnapshotIndex: step.snapshot})
			mustHold(t, s.Log(), step.first, step.last, 1)
		}
	})
}

func TestStableSurvives(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		dir := t.TempDir()
		s := mustOpen(t, Config{Dir: dir, Kind: kind})
		if _, err := s.Stable().Get([]byte("x")); err == nil || err.Error() != "not found" {
			t.Errorf("absent key: %v; raft looks for the text \"not found\"", err)
		}
		err := errors.Join(s.Stable().SetUint64([]byte("term"), 7), s.Stable().Set([]byte("for"), []byte("n1")))
		assert.NoError(t, err)
		mustClose(t, s)
		s = mustOpen(t, Config{Dir: dir, Kind: kind})
		term, err := s.Stable().GetUint64([]byte("term"))
		if err != nil || term != 7 {
			t.Errorf("term %d, %v", term, err)
		}
		if who, err := s.Stable().Get([]byte("for")); err != nil || string(who) != "n1" {
			t.Errorf("vote %q, %v", who, err)
		}
	})
}

func TestCloseIsFinalAndRepeatable(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		s := mustOpen(t, Config{Dir: t.TempDir(), Kind: kind})
		mustClose(t, s)
		mustClose(t, s)
		assert.ErrorIs(t, s.Log().StoreLog(entry(1, 1)), ErrClosed, "append after Close")
		assert.ErrorIs(t, s.Stable().SetUint64([]byte("term"), 1), ErrClosed, "vote after Close")
	})
}

func TestSecondOpenIsRefused(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		cfg := testConfig(t, Config{Dir: t.TempDir(), Kind: kind})
		s := mustOpen(t, cfg)
		if _, err := Open(cfg); !errors.Is(err, ErrInUse) {
			t.Fatalf("second Open: %v", err)
		}
		mustStore(t, s, entries(1, 3, 1)) // the refused one has changed nothing
		mustClose(t, s)
		mustHold(t, mustOpen(t, cfg).Log(), 1, 3, 1)
	})
}

func TestOtherKindIsRefused(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		dir := t.TempDir()
		mustClose(t, mustOpen(t, Config{Dir: dir, Kind: kind}))
		other := map[Kind]Kind{WAL: BoltDB, BoltDB: WAL}[kind]
		if _, err := Open(testConfig(t, Config{Dir: dir, Kind: other})); !errors.Is(err, ErrKindMismatch) {
			t.Fatalf("opened as %s: %v", other, err)
		}
		mustOpen(t, Config{Dir: dir, Kind: kind})
	})
}

func TestBytes(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		reg := prometheus.NewRegistry()
		cfg := Config{Dir: t.TempDir(), Kind: kind, Registerer: reg}
		s := mustOpen(t, cfg)
		logs := entries(1, 100, 1)
		mustStore(t, s, logs)
		var data uint64
		for _, e := range logs {
			data += uint64(len(e.Data))
		}
		appended := func() uint64 { return uint64(testutil.ToFloat64(s.metrics.bytes)) }
		before := appended()
		if before < data || before > data+100*100 {
			t.Errorf("%d bytes for %d of data in 100 entries", before, data)
		}
		assert.NoError(t, s.Log().DeleteRange(1, 100))
		if got := appended(); got != before {
			t.Errorf("a deletion changed the bytes appended from %d to %d", before, got)
		}
		disk, err := s.DiskBytes()
		if err != nil || disk < 4096 {
			t.Errorf("disk bytes %d, %v", disk, err)
		}
		if n, err := testutil.GatherAndCount(reg); err != nil || n != 3 {
			t.Errorf("%d metrics, %v", n, err)
		}
		mustClose(t, s)
		cfg.SnapshotIndex = 100
		mustOpen(t, cfg) // registers again
	})
}

func TestForeignMetricsAreLeftAlone(t *testing.T) {
	reg := prometheus.NewRegistry()
	mustOpen(t, Config{Dir: t.TempDir(), Registerer: reg})
	if _, err := Open(testConfig(t, Config{Dir: t.TempDir(), Registerer: reg})); err == nil {
		t.Fatal("two groups registered the same metrics")
	}
	if n, err := testutil.GatherAndCount(reg); err != nil || n != 3 {
		t.Errorf("%d metrics of the first are left, %v", n, err)
	}
}

func TestSegmentsAreSmall(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), Fatal: noFatal(t)})
	assert.NoError(t, err)
	defer mustClose(t, s)
	disk, err := s.DiskBytes()
	if err != nil || disk > 6<<20 {
		t.Errorf("a new group takes %d bytes, %v", disk, err)
	}
}

// TestLockFile checks the lock alone: bbolt's own lock would not keep two processes from making the first files side by
// side.
func TestLockFile(t *testing.T) {
	path := folder(t.TempDir()).lock()
	f, err := lockFile(path)
	assert.NoError(t, err)
	if _, err := lockFile(path); !errors.Is(err, ErrInUse) {
		t.Errorf("locked twice: %v", err)
	}
	assert.NoError(t, f.Close())
	f, err = lockFile(path)
	assert.NoError(t, err)
	_ = f.Close()
}

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
