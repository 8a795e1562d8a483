package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceLeavesAWholeFile checks that a stop before any step leaves the old file or the new one, and that the next
// call succeeds.
func TestReplaceLeavesAWholeFile(t *testing.T) {
	for _, at := range []string{"create", "write", "sync", "rename", "sync folder"} {
		path := filepath.Join(t.TempDir(), "file")
		if err := Replace(path, []byte("old"), nil); err != nil {
			t.Fatal(err)
		}
		stopped := errors.New("stopped")
		err := Replace(path, []byte("a longer one"), func(step string) error {
			if step == at {
				return stopped
			}
			return nil
		})
		if !errors.Is(err, stopped) {
			t.Errorf("before %s: %v", at, err)
		}
		want := "old"
		if at == "sync folder" {
			want = "a longer one"
		}
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("before %s: the file holds %q, %v", at, got, err)
		}
		if err := Replace(path, []byte("new"), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != "new" || err != nil {
			t.Errorf("after a stop before %s: the file holds %q, %v", at, got, err)
		}
	}
}
