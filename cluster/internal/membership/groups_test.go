package membership

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// withGroup returns a folder in which a replica lives that joined at a revision.
func withGroup(t *testing.T, dir string, group uint32, joined uint64) *Identity {
	t.Helper()
	id := reopen(t, dir)
	assert.NoError(t, os.MkdirAll(filepath.Join(id.GroupDir(group), "log"), 0o700))
	assert.NoError(t, id.RecordOpened(group, joined))
	return id
}

func requireGone(t *testing.T, id *Identity, group uint32) {
	t.Helper()
	_, err := os.Stat(id.GroupDir(group))
	assert.ErrorIs(t, err, os.ErrNotExist, "the files of group %d are still there", group)
	if id.Opened(group) || id.Joined(group) != 0 {
		t.Errorf("group %d is still on record", group)
	}
}

func TestRemovedGroupMayComeBack(t *testing.T) {
	dir := t.TempDir()
	id := withGroup(t, dir, 3, 7)
	assert.Equal(t, id.Joined(3), 7, "joined at")
	var forgotten []uint32
	assert.NoError(t, id.Remove(3, func(group uint32) error { forgotten = append(forgotten, group); return nil }))
	if requireGone(t, id, 3); len(forgotten) != 1 || id.Left()[3] != 7 {
		t.Errorf("forgotten %v, left %v", forgotten, id.Left())
	}
	closeIdentity(t, id)
	id = withGroup(t, dir, 3, 9)
	if !id.Opened(3) || id.Joined(3) != 9 || id.Left()[3] != 7 {
		t.Errorf("back with %d after %v", id.Joined(3), id.Left())
	}
}

// TestInterruptedRemovalIsFinished checks that a removal that fails after any step is finished by the next process, and
// that the group counts as held until the removal was decided.
func TestInterruptedRemovalIsFinished(t *testing.T) {
	stop := errors.New("the disk fails here")
	for name, spoil := range map[string]func(id *Identity) func(uint32) error{
		"undecided": func(id *Identity) func(uint32) error {
			id.step = func(string) error { return stop }
			return func(uint32) error { return nil }
		},
		"not forgotten": func(*Identity) func(uint32) error { return func(uint32) error { return stop } },
		"not on record": func(id *Identity) func(uint32) error {
			return func(uint32) error {
				id.step = func(string) error { return stop }
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			id := withGroup(t, dir, 3, 7)
			if err := id.Remove(3, spoil(id)); !errors.Is(err, stop) {
				t.Fatal(err)
			}
			closeIdentity(t, id)
			id = reopen(t, dir)
			forgotten := 0
			assert.NoError(t, id.ResumeRemovals(func(uint32) error { forgotten++; return nil }))
			if name == "undecided" {
				if !id.Opened(3) || forgotten != 0 {
					t.Error("the group is gone without a decision")
				}
				return
			}
			if requireGone(t, id, 3); forgotten != 1 || id.Left()[3] != 7 {
				t.Errorf("forgotten %d times, left %v", forgotten, id.Left())
			}
		})
	}
}

// TestOldReplicasAreOver checks that a replica which an old log shows is not taken for the one in the folder, and that
// the files of an interrupted first opening are known for their replica's.
func TestOldReplicasAreOver(t *testing.T) {
	dir := t.TempDir()
	id := withGroup(t, dir, 3, 0)
	if id.IsOver(3, 0) {
		t.Error("the first replica is over")
	}
	assert.NoError(t, id.Remove(3, func(uint32) error { return nil }))
	if !id.IsOver(3, 0) || id.IsOver(3, 7) {
		t.Error("after the removal of the first one")
	}
	assert.NoError(t, errors.Join(id.RecordJoined(3, 7), id.RecordJoined(3, 5)))
	closeIdentity(t, id)
	id = reopen(t, dir)
	if id.Joined(3) != 7 || id.Opened(3) || !id.IsOver(3, 5) || id.IsOver(3, 7) {
		t.Errorf("joined at %d, opened: %v", id.Joined(3), id.Opened(3))
	}
}
