// Package localtest builds belfry for tests that run it as real processes.
package localtest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Build builds the command and returns its path. It is gone when the test ends.
func Build(t testing.TB) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "belfry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/belfryhq/belfry/cmd/belfry")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building belfry: %v\n%s", err, out)
	}
	return binary
}
