package logstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestLostRecordIsRefused(t *testing.T) {
	t.Parallel()
	remove := func(names ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				assert.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
			}
		}
	}
	all := []string{"stable.db", "wal", "log.db"}
	cases := []struct {
		name string
		do   func(t *testing.T, dir string)
		cfg  Config
		want error
	}{
		{"nothing lost", remove(), Config{}, nil},
		{"the log", remove("wal", "log.db"), Config{}, ErrLostLog},
		{"the log, with a snapshot", remove("wal", "log.db"), Config{SnapshotIndex: 5}, ErrLostLog},
		{"the votes", remove("stable.db"), Config{}, ErrLostLog},
		{"the votes, with a snapshot", remove("stable.db"), Config{SnapshotIndex: 5}, ErrLostLog},
		{"all but the snapshot", remove(all...), Config{SnapshotIndex: 5}, ErrLostLog},
		{"all, of a group known here", remove(all...), Config{Existing: true}, ErrLostLog},
		{"all, of a group not known here", remove(all...), Config{}, nil},
		{"the folder, of a group known here", remove("."), Config{Existing: true}, ErrLostLog},
		{"the entries", emptyLog, Config{}, ErrLostLog},
		{"the entries, with a snapshot", emptyLog, Config{SnapshotIndex: 10}, nil},
		{"the snapshot", cutHead, Config{}, ErrLostLog},
		{"the newest snapshot", cutHead, Config{SnapshotIndex: 3}, ErrLostLog},
		{"no snapshot", cutHead, Config{SnapshotIndex: 4}, nil},
	}
	bothKinds(t, func(t *testing.T, kind Kind) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "a", "group")
				c.cfg.Dir, c.cfg.Kind = dir, kind
				s := mustOpen(t, Config{Dir: dir, Kind: kind})
				mustStore(t, s, entries(1, 10, 1))
				assert.NoError(t, s.Stable().SetUint64([]byte("CurrentTerm"), 1))
				mustClose(t, s)
				if c.name == "the folder, of a group known here" {
					dir = filepath.Dir(dir)
				}
				c.do(t, dir)
				for range 2 { // the refusal has changed nothing
					s, err := Open(testConfig(t, c.cfg))
					if !errors.Is(err, c.want) {
						t.Fatalf("Open: %v, want %v", err, c.want)
					}
					if err == nil {
						mustClose(t, s)
					}
				}
			})
		}
	})
}

func emptyLog(t *testing.T, dir string) { deleteRange(t, dir, 1, 10) }

func cutHead(t *testing.T, dir string) { deleteRange(t, dir, 1, 4) }

func deleteRange(t *testing.T, dir string, first, last uint64) {
	t.Helper()
	kind := WAL
	if exists, _ := fileExists(folder(dir).bolt()); exists {
		kind = BoltDB
	}
	s := mustOpen(t, Config{Dir: dir, Kind: kind})
	assert.NoError(t, s.Log().DeleteRange(first, last))
	mustClose(t, s)
}

// TestTermWithoutLogIsNoLoss checks that a voter that voted in the first election before it stored an entry has lost
// nothing.
func TestTermWithoutLogIsNoLoss(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		cfg := Config{Dir: t.TempDir(), Kind: kind}
		s := mustOpen(t, cfg)
		assert.NoError(t, s.Stable().SetUint64([]byte("CurrentTerm"), 3))
		mustClose(t, s)
		cfg.Existing = true
		mustHold(t, mustOpen(t, cfg).Log(), 0, 0, 0)
	})
}

// TestSnapshotAloneCountsAsBegun checks that a replica without a log but with a snapshot counts as begun, so that it
// can report a loss.
func TestSnapshotAloneCountsAsBegun(t *testing.T) {
	bothKinds(t, func(t *testing.T, kind Kind) {
		cfg := Config{Dir: t.TempDir(), Kind: kind}
		mustClose(t, mustOpen(t, cfg))
		cfg.SnapshotIndex = 9
		mustClose(t, mustOpen(t, cfg))
		cfg.SnapshotIndex = 0
		_, err := Open(testConfig(t, cfg))
		assert.ErrorIs(t, err, ErrLostLog, "Open without the snapshot")
	})
}

func TestLogIsAlignedWithSnapshot(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name        string
		index, term uint64
		emptied     bool
	}{
		{"no snapshot", 0, 0, false},
		{"inside the log", 6, 1, false},
		{"inside the log, term unknown", 6, 0, false},
		{"at its end", 10, 1, false},
		{"beyond its end", 11, 1, true},
		{"far beyond its end", 5000, 9, true},
		{"inside the log, of another term", 6, 2, true},
		{"at its end, of another term", 10, 2, true},
	}
	bothKinds(t, func(t *testing.T, kind Kind) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				cfg := Config{Dir: t.TempDir(), Kind: kind}
				s := mustOpen(t, cfg)
				mustStore(t, s, entries(1, 10, 1))
				mustClose(t, s)
				cfg.SnapshotIndex, cfg.SnapshotTerm = c.index, c.term
				s = mustOpen(t, cfg)
				next := uint64(11)
				if c.emptied {
					mustHold(t, s.Log(), 0, 0, 0)
					next = c.index + 1
				} else {
					mustHold(t, s.Log(), 1, 10, 1)
				}
				mustStore(t, s, entries(next, next+5, 3)) // fails for ever with a gap
				mustRead(t, s.Log(), next+5, 3)
				mustClose(t, s)
				mustRead(t, mustOpen(t, cfg).Log(), next, 3)
			})
		}
	})
}

// TestGapBeforeSnapshotIsNoDamage checks that a gap in a bolt log before the newest snapshot is no damage. Raft leaves
// such a gap when a snapshot is restored by hand.
func TestGapBeforeSnapshotIsNoDamage(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Kind: BoltDB}
	s := mustOpen(t, cfg)
	mustStore(t, s, entries(1, 5, 1))
	mustStore(t, s, entries(8, 10, 1))
	mustClose(t, s)
	cfg.SnapshotIndex, cfg.SnapshotTerm = 7, 1
	mustClose(t, mustOpen(t, cfg))
	cfg.SnapshotIndex = 6
	_, err := Open(testConfig(t, cfg))
	assert.ErrorIs(t, err, ErrDamaged, "a gap behind the snapshot")
}
