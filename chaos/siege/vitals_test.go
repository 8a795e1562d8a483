package siege

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSize(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "belfry.log"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := size(dir); got != 2000 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := size(filepath.Join(dir, "none")); got != 0 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
}
