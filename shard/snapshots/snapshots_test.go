package snapshots

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func take(t *testing.T, store *raft.FileSnapshotStore, index uint64) (id string) {
	t.Helper()
	sink, err := store.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

// The newest one that is whole counts; that there are some and none is whole is an error.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	must := func(want uint64) {
		t.Helper()
		if got, err := Newest(store); err != nil || got.Index != want {
			t.Errorf("%d, %v; want %d", got.Index, err, want)
		}
	}
	must(0)
	first, second := take(t, store, 3), take(t, store, 7)
	must(7)
	maim(t, dir, second)
	must(3)
	maim(t, dir, first)
	if got, err := Newest(store); err == nil {
		t.Errorf("%+v of no whole snapshot", got)
	}
}

func maim(t *testing.T, dir, id string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, folder, id, "state.bin"), []byte("stat"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWriting(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	sink, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Cancel() }()
	if _, err := os.Stat(Writing(dir, sink.ID())); err != nil {
		t.Error(err)
	}
}

// What was never whole is removed, and nothing else is.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := RemoveUnfinished(dir); err != nil {
		t.Errorf("a folder without any: %v", err)
	}
	store, err := Open(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	kept, headless := take(t, store, 3), take(t, store, 7)
	if err := os.Remove(filepath.Join(dir, folder, headless, "meta.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(raft.SnapshotVersionMax, 9, 1, raft.Configuration{}, 0, nil); err != nil { // and no end
		t.Fatal(err)
	}
	if err := RemoveUnfinished(dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, folder))
	if err != nil || len(left) != 1 || left[0].Name() != kept {
		t.Errorf("left: %v, %v", left, err)
	}
	if got, err := Newest(store); err != nil || got.Index != 3 {
		t.Errorf("the newest is %d, %v", got.Index, err)
	}
}
