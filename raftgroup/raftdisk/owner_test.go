package raftdisk

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

var owner = Owner{Cluster: "c", Node: "n", Group: 1}

// made makes a group's folder with a log and a snapshot.
func made(t *testing.T, o Owner) Config {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{
		Dir: dir, LogDir: filepath.Join(dir, "log"), Owner: &o, Logger: slog.New(slog.DiscardHandler),
		Fatal: func(err error) { t.Error(err) },
	}
	d, err := Open(cfg)
	assert.NoError(t, err)
	assert.NoError(t, d.Log().StoreLogs([]*raft.Log{{Index: 1, Term: 1}}))
	sink, err := d.Snapshots().Create(1, 1, 1, raft.Configuration{}, 1, nil)
	assert.NoError(t, err)
	assert.NoError(t, errors.Join(sink.Close(), d.Close()))
	cfg.Existing = true
	return cfg
}

// TestExchangedParts checks that Open notices each part of a folder that was exchanged for another owner's, or has lost
// its mark.
func TestExchangedParts(t *testing.T) {
	others := map[string]Owner{
		"another group's":   {Cluster: "c", Node: "n", Group: 2},
		"another node's":    {Cluster: "c", Node: "m", Group: 1},
		"another cluster's": {Cluster: "d", Node: "n", Group: 1},
	}
	for whose, other := range others {
		for _, part := range []string{".", "log", "log/wal", "snapshots"} {
			cfg, foreign := made(t, owner), made(t, other)
			target := filepath.Join(cfg.Dir, part)
			assert.NoError(t, os.RemoveAll(target))
			assert.NoError(t, os.CopyFS(target, os.DirFS(filepath.Join(foreign.Dir, part))))
			_, err := Open(cfg)
			assert.ErrorIs(t, err, ErrForeign, "%s %s", whose, part)
			assert.ErrorIs(t, owner.Check(cfg.Dir, cfg.LogDir), ErrForeign, "%s %s is checked", whose, part)
		}
	}
	for _, part := range []string{"log", "log/wal", "snapshots"} {
		cfg := made(t, owner)
		assert.NoError(t, os.Remove(filepath.Join(cfg.Dir, part, ownerFile)))
		_, err := Open(cfg)
		assert.ErrorIs(t, err, ErrForeign, "%s without a mark", part)
	}
	cfg := made(t, owner)
	d, err := Open(cfg)
	assert.NoError(t, err)
	assert.NoError(t, d.Close())
}
