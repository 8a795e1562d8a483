// Package localtest builds belfry for tests that run it as real processes.
package localtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build builds the command, with build tags if there are any, and returns its path. It is gone when the test ends.
func Build(t testing.TB, tags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "belfry")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", strings.Join(tags, ","), "-o", binary,
		"github.com/belfryhq/belfry/cmd/belfry")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building belfry: %v\n%s", err, out)
	}
	return binary
}
