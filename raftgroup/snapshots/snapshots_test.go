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

	"github.com/belfryhq/belfry/internal/assert"
)

var quiet = slog.New(slog.DiscardHandler)

func take(t *testing.T, store *Store, index uint64) (id string) {
	t.Helper()
	return takeIn(t, store, index, 1)
}

// takeIn takes a snapshot in a term. Two of the same term and index in one millisecond would have the same name.
func takeIn(t *testing.T, store *Store, index, term uint64) (id string) {
	t.Helper()
	sink, err := store.Create(raft.SnapshotVersionMax, index, term, raft.Configuration{}, 0, nil)
	assert.NoError(t, err)
	if _, err := sink.Write([]byte("state")); err != nil {
		t.Fatal(err)
	}
	assert.NoError(t, sink.Close())
	return sink.ID()
}

// TestNewest checks that the newest whole snapshot counts, and that it is an error if snapshots exist and none is
// whole.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, quiet)
	assert.NoError(t, err)
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
	assert.NoError(t, os.WriteFile(filepath.Join(dir, folder, id, "state.bin"), []byte("stat"), 0o600))
}

// TestSync checks that Sync syncs the file that Raft's store is writing. If that library moves the file, snapshots must
// fail rather than quietly sync once at the end.
func TestSync(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, quiet)
	assert.NoError(t, err)
	sink, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	assert.NoError(t, err)
	file := sink.(interface{ Sync() error })
	assert.Equal(t, file.Sync(), nil)
	assert.Equal(t, sink.Cancel(), nil)
	assert.ErrorIs(t, file.Sync(), fs.ErrNotExist, "a file that is not there was synced")
}

// TestLongSnapshotIsSyncedOnTheWay checks that a snapshot that another node sends is synced in parts.
func TestLongSnapshotIsSyncedOnTheWay(t *testing.T) {
	store, err := Open(t.TempDir(), 2, quiet)
	assert.NoError(t, err)
	created, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	assert.NoError(t, err)
	part, s := make([]byte, 64<<10), created.(*sink)
	for i := range 2 * mostDirty / len(part) {
		_, err := s.Write(part)
		assert.NoError(t, err)
		if written := (i + 1) * len(part); s.dirty != written%mostDirty || (s.file != nil) != (written >= mostDirty) {
			t.Fatalf("after %d bytes: %d are not synced", written, s.dirty)
		}
	}
	assert.Equal(t, s.Close(), nil)
}

// TestUnfinishedSnapshotsAreRemoved checks that the next process removes only unfinished snapshots, and that Inspect
// removes none.
func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	store, err := Open(dir, 2, quiet)
	assert.NoError(t, err)
	kept := take(t, store, 3)
	if _, err := store.Create(raft.SnapshotVersionMax, 9, 1, raft.Configuration{}, 0, nil); err != nil { // never closed
		t.Fatal(err)
	}
	left := func() (names []string) {
		names, err := folders(filepath.Join(dir, folder))
		assert.Equal(t, err, nil)
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

// TestSnapshotsFolderIsSynced checks that a snapshot closes once the names of its files are on the disk, and fails to
// close if they cannot be synced.
func TestSnapshotsFolderIsSynced(t *testing.T) {
	store, err := Open(t.TempDir(), 2, quiet)
	assert.NoError(t, err)
	var synced []string
	broken := errors.New("the disk says no")
	store.sync = func(dir string) error {
		synced = append(synced, filepath.Base(dir))
		return broken
	}
	sink, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	assert.NoError(t, err)
	if err := sink.Close(); !errors.Is(err, broken) || !slices.Equal(synced, []string{sink.ID()}) {
		t.Errorf("synced %v of %s: %v", synced, sink.ID(), err)
	}
}

// TestOlderSnapshotIsNone checks that a snapshot that is older than another one at its end is dropped, because Raft
// would continue from it.
func TestOlderSnapshotIsNone(t *testing.T) {
	store, err := Open(t.TempDir(), 2, quiet)
	assert.NoError(t, err)
	older, err := store.Create(raft.SnapshotVersionMax, 3, 1, raft.Configuration{}, 0, nil)
	assert.NoError(t, err)
	take(t, store, 7)
	assert.ErrorIs(t, older.Close(), ErrOlder, "closed with")
	takeIn(t, store, 7, 2) // as new as the newest
	if got, err := Newest(store); err != nil || got.Index != 7 {
		t.Errorf("the newest is %d, %v", got.Index, err)
	}
	if left, err := folders(store.dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
