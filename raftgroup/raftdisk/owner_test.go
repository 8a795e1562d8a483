package raftdisk

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
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
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Log().StoreLogs([]*raft.Log{{Index: 1, Term: 1}}); err != nil {
		t.Fatal(err)
	}
	sink, err := d.Snapshots().Create(1, 1, 1, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sink.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
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
			if err := os.RemoveAll(target); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(target, os.DirFS(filepath.Join(foreign.Dir, part))); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(cfg); !errors.Is(err, ErrForeign) {
				t.Errorf("%s %s: %v", whose, part, err)
			}
			if err := owner.Check(cfg.Dir, cfg.LogDir); !errors.Is(err, ErrForeign) {
				t.Errorf("%s %s is checked: %v", whose, part, err)
			}
		}
	}
	for _, part := range []string{"log", "log/wal", "snapshots"} {
		cfg := made(t, owner)
		if err := os.Remove(filepath.Join(cfg.Dir, part, ownerFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cfg); !errors.Is(err, ErrForeign) {
			t.Errorf("%s without a mark: %v", part, err)
		}
	}
	cfg := made(t, owner)
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
