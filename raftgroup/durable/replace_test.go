package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestReplaceLeavesAWholeFile checks that a stop before any step leaves the old file or the new one, and that the next
// call succeeds.
func TestReplaceLeavesAWholeFile(t *testing.T) {
	for _, at := range []string{"create", "write", "sync", "rename", "sync folder"} {
		path := filepath.Join(t.TempDir(), "file")
		assert.NoError(t, Replace(path, []byte("old"), nil))
		stopped := errors.New("stopped")
		err := Replace(path, []byte("a longer one"), func(step string) error {
			if step == at {
				return stopped
			}
			return nil
		})
		assert.ErrorIs(t, err, stopped, "before %s", at)
		want := "old"
		if at == "sync folder" {
			want = "a longer one"
		}
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("before %s: the file holds %q, %v", at, got, err)
		}
		assert.NoError(t, Replace(path, []byte("new"), nil))
		if got, err := os.ReadFile(path); string(got) != "new" || err != nil {
			t.Errorf("after a stop before %s: the file holds %q, %v", at, got, err)
		}
	}
}
