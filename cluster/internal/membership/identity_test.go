package membership

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func reopen(t *testing.T, dir string) *Identity {
	t.Helper()
	id, err := OpenIdentity(dir)
	assert.NoError(t, err)
	t.Cleanup(func() { _ = id.Close() })
	return id
}

func closeIdentity(t *testing.T, id *Identity) {
	t.Helper()
	assert.NoError(t, id.Close())
}

func TestIdentityOutlivesRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := reopen(t, dir)
	if len(first.NodeID()) != IDBytes || first.Boot() != 1 || first.ClusterID() != "" || first.Opened(3) {
		t.Fatalf("a new folder: %+v", first.now)
	}
	promise := Promise{ClusterID: NewID(), Nodes: []string{first.NodeID()}}
	for _, err := range []error{
		first.Give(promise), first.Enter(promise.ClusterID), first.RecordOpened(3, 0), first.RecordOpened(0, 0), first.Close(),
	} {
		assert.NoError(t, err)
	}
	second := reopen(t, dir)
	given, ok := second.Promised()
	if second.NodeID() != first.NodeID() || second.Boot() != 2 || second.ClusterID() != promise.ClusterID ||
		!ok || !given.Equal(promise) || !second.Opened(3) || !second.Opened(0) || second.Opened(1) {
		t.Fatalf("after a restart: %+v", second.now)
	}
}

func TestFolderIsLocked(t *testing.T) {
	dir := t.TempDir()
	first := reopen(t, dir)
	if _, err := OpenIdentity(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("opened twice: %v", err)
	}
	closeIdentity(t, first)
	reopen(t, dir)
}

func TestOnePromiseOnly(t *testing.T) {
	id := reopen(t, t.TempDir())
	mine := Promise{ClusterID: NewID(), Nodes: []string{id.NodeID(), "zzzz"}}
	assert.NoError(t, id.Give(mine))
	assert.Equal(t, id.Give(mine), nil, "the same again")
	for _, other := range []Promise{
		{ClusterID: NewID(), Nodes: mine.Nodes},
		{ClusterID: mine.ClusterID, Nodes: []string{id.NodeID()}},
	} {
		assert.ErrorIs(t, id.Give(other), errPromised, "a second promise")
	}
	other := NewID()
	if err := id.Enter(other); !errors.Is(err, errPromised) || id.ClusterID() != "" {
		t.Errorf("entered another cluster: %v", err)
	}
	if err := id.EnterInstead(other); err != nil || id.ClusterID() != other {
		t.Errorf("entered another cluster, the promise being void: %v", err)
	}
}

func TestImpossiblePromises(t *testing.T) {
	id := reopen(t, t.TempDir())
	for _, p := range []Promise{
		{ClusterID: "short", Nodes: []string{id.NodeID()}},
		{ClusterID: NewID(), Nodes: []string{"someone else"}},
		{ClusterID: NewID(), Nodes: []string{"~", id.NodeID()}},
	} {
		assert.Error(t, id.Give(p), "%+v was given", p)
	}
	assert.NoError(t, id.Enter(NewID()))
	if err := id.Give(Promise{ClusterID: NewID(), Nodes: []string{id.NodeID()}}); !errors.Is(err, errPromised) {
		t.Errorf("a member promised itself: %v", err)
	}
	assert.Error(t, id.Enter(NewID()), "entered a second cluster")
}

// A crash at any step of the writing leaves the promise either given, whole, or not given at all. It stays given once
// Give has returned without an error.
func TestPromiseSurvivesACrashAtEachLine(t *testing.T) {
	crash := errors.New("crash")
	for _, line := range []string{"create", "write", "sync", "rename", "sync folder", ""} {
		t.Run("at "+line, func(t *testing.T) {
			dir := t.TempDir()
			armed := false
			id, err := openIdentity(dir, func(step string) error {
				if armed && step == line {
					return crash
				}
				return nil
			})
			assert.NoError(t, err)
			promise := Promise{ClusterID: NewID(), Nodes: []string{id.NodeID()}}
			armed = true
			err = id.Give(promise)
			if (err == nil) != (line == "") || (err != nil && !errors.Is(err, crash)) {
				t.Fatalf("Give: %v", err)
			}
			closeIdentity(t, id)

			again := reopen(t, dir)
			given, ok := again.Promised()
			if again.NodeID() != id.NodeID() {
				t.Fatalf("became %s, was %s", again.NodeID(), id.NodeID())
			}
			if err == nil && !ok {
				t.Fatal("the promise was answered and is gone")
			}
			if ok && !given.Equal(promise) {
				t.Fatalf("promised %+v, found %+v", promise, given)
			}
		})
	}
}

// The methods do not return a change that could not be made durable.
func TestFailedWriteChangesNothing(t *testing.T) {
	armed := false
	id, err := openIdentity(t.TempDir(), func(string) error {
		if armed {
			return errors.New("no room")
		}
		return nil
	})
	assert.NoError(t, err)
	defer closeIdentity(t, id)
	armed = true
	if err := id.Enter(NewID()); err == nil || id.ClusterID() != "" {
		t.Errorf("entered %q: %v", id.ClusterID(), err)
	}
	if err := id.RecordOpened(1, 0); err == nil || id.Opened(1) {
		t.Errorf("opened: %v", err)
	}
}

func TestLostOrBrokenFileIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	id := reopen(t, dir)
	assert.NoError(t, os.MkdirAll(id.GroupDir(1), 0o700))
	closeIdentity(t, id)
	path := filepath.Join(dir, identityFile)
	for name, content := range map[string]string{
		"torn": `{"version":1,"node_`, "newer": `{"version":2}`, "empty": `{"version":1}`,
	} {
		assert.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := OpenIdentity(dir)
		assert.Error(t, err, "%s file: opened", name)
	}
	assert.NoError(t, os.Remove(path))
	if _, err := OpenIdentity(dir); err == nil || !strings.Contains(err.Error(), "holds Raft groups") {
		t.Errorf("groups without an identity: %v", err)
	}
}
