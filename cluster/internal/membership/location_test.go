package membership

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// copyFolder copies a folder's files, as cp -a does.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	assert.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

// A copied folder counts as copied until it is confirmed, over restarts; a renamed folder does not.
func TestCopiedFolder(t *testing.T) {
	base := t.TempDir()
	first, second, third := filepath.Join(base, "1"), filepath.Join(base, "2"), filepath.Join(base, "3")
	start := func(dir string, copied bool) *Identity {
		t.Helper()
		id, err := OpenIdentity(dir)
		assert.NoError(t, err)
		if id.Copied() != copied {
			t.Fatalf("start %d in %s: copied is %v", id.Boot(), filepath.Base(dir), id.Copied())
		}
		return id
	}
	closeIdentity(t, start(first, false))
	id := start(first, false)
	assert.NoError(t, id.RecordOpened(1, 0))
	closeIdentity(t, id)
	copyFolder(t, first, second)
	closeIdentity(t, start(second, true))
	looked, err := InspectIdentity(second)
	if err != nil || !looked.Copied() {
		t.Errorf("looked at: %v, %v", looked.Copied(), err)
	}
	closeIdentity(t, looked)
	id = start(second, true)
	assert.NoError(t, id.Confirm())
	closeIdentity(t, id)
	closeIdentity(t, start(second, false))
	assert.NoError(t, os.Rename(second, third))
	closeIdentity(t, start(third, false))
	closeIdentity(t, start(first, false))
}

// A file that was put back into its own folder counts as a copy, too.
func TestCopiedFile(t *testing.T) {
	dir := t.TempDir()
	closeIdentity(t, reopen(t, dir))
	path := filepath.Join(dir, identityFile)
	kept := filepath.Join(dir, "kept")
	data, err := os.ReadFile(path)
	assert.NoError(t, err)
	assert.NoError(t, os.WriteFile(kept, data, 0o600))
	closeIdentity(t, reopen(t, dir))
	assert.NoError(t, os.Rename(kept, path))
	if again := reopen(t, dir); !again.Copied() {
		t.Error("not noticed")
	}
}

func TestWhatIsAnotherFile(t *testing.T) {
	at := inode{Device: 1, Number: 2, BirthNs: 3}
	for _, c := range []struct {
		other   inode
		differs bool
	}{
		{at, false},
		{inode{Device: 9, Number: 2, BirthNs: 3}, false}, // after a restart of the machine
		{inode{Device: 1, Number: 9, BirthNs: 3}, true},
		{inode{Device: 1, Number: 2, BirthNs: 9}, true},
		{inode{Device: 1, Number: 2}, false},
		{inode{Device: 9, Number: 2}, true}, // without birth times the device decides
	} {
		assert.Equal(t, at.differs(c.other), c.differs, "%+v and %+v: differs", at, c.other)
	}
}
