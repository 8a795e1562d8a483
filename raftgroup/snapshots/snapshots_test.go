package snapshots

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

var quiet = slog.New(slog.DiscardHandler)

func take(t *testing.T, store *Store, index uint64) (id string) {
	t.Helper()
	return takeIn(t, store, index, 1)
}

// takeIn makes one of a term: two of the same term and index in one millisecond have the same name.
func takeIn(t *testing.T, store *Store, index, term uint64) (id string) {
	t.Helper()
	sink, err := store.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{}, 0, nil)
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
	store, err := Open(dir, 2, quiet)
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

// Sync brings to the disk the file that Raft's store is writing: if that library moves it, snapshots must fail and not
// quietly go back to one sync at the end.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, quiet)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := sink.(interface{ Sync() error })
	if err := file.Sync(); err != nil {
		t.Error(err)
	}
	if err := sink.Cancel(); err != nil {
		t.Error(err)
	}
	if err := file.Sync(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there was synced: %v", err)
	}
}

// What was being written is removed by the next process, and nothing else is. Who only looks removes nothing.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, quiet)
	if err != nil {
		t.Fatal(err)
	}
	kept := take(t, store, 3)
	if _, err := store.Create(raft.SnapshotVersionMax, 9, 1, raft.Configuration{}, 0, nil); err != nil { // and no end
		t.Fatal(err)
	}
	left := func() (names []string) {
		names, err := folders(filepath.Join(dir, folder))
		if err != nil {
			t.Error(err)
		}
		return names
	}
	if _, err := Inspect(dir); err != nil || len(left()) != 2 {
		t.Errorf("after a look: %v, %v", left(), err)
	}
	if store, err = Open(dir, 2, quiet); err != nil || !slices.Equal(left(), []string{kept}) {
		t.Errorf("left: %v, %v", left(), err)
	}
	if got, err := Newest(store); err != nil || got.Index != 3 {
		t.Errorf("the newest is %d, %v", got.Index, err)
	}
}

// A snapshot is closed when the names of its files are on the disk; if they cannot be brought there, it is not.
func TestSnapshotsFolderIsSynced(t *testing.T) {
	store, err := Open(t.TempDir(), 2, quiet)
	if err != nil {
		t.Fatal(err)
	}
	var synced []string
	broken := errors.New("the disk says no")
	store.sync = func(dir string) error {
		synced = append(synced, filepath.Base(dir))
		return broken
	}
	sink, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); !errors.Is(err, broken) || !slices.Equal(synced, []string{sink.ID()}) {
		t.Errorf("synced %v of %s: %v", synced, sink.ID(), err)
	}
}

// One that is older than another by the time that it is whole is none: Raft would go on from it.
func TestOlderSnapshotIsNone(t *testing.T) {
	store, err := Open(t.TempDir(), 2, quiet)
	if err != nil {
		t.Fatal(err)
	}
	older, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	take(t, store, 7)
	if err := older.Close(); !errors.Is(err, ErrOlder) {
		t.Errorf("closed with %v", err)
	}
	takeIn(t, store, 7, 2) // as new as the newest
	if got, err := Newest(store); err != nil || got.Index != 7 {
		t.Errorf("the newest is %d, %v", got.Index, err)
	}
	if left, err := folders(store.dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
