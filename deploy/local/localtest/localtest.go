// Package localtest builds belfry for tests that run it as real processes.
package localtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/belfryhq/belfry"

// Need skips a test of nodes in processes of their own: in the short form, and under the race detector, which does not
// see into other processes.
func Need(t testing.TB) {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip("builds and runs real nodes")
	case underRace:
		t.Skip("runs nodes in processes of their own, into which the race detector does not see")
	}
}

// Build builds the command with build tags and returns its path. The file is removed when the test ends. A test of
// another module may call Build: the command is built with its own module's dependencies.
//
// Go keeps a linked program for `go run` alone, where cp stands in for the run. So all tests together link it once.
func Build(t testing.TB, tags ...string) string {
	t.Helper()
	folder := run(t, "go", "list", "-m", "-f", "{{.Dir}}", module)
	binary := filepath.Join(t.TempDir(), "belfry")
	run(t, "go", "run", "-C", folder, "-tags", strings.Join(tags, ","), "-exec", "cp", module+"/cmd/belfry", binary)
	return binary
}

// run runs a command and returns its output.
func run(t testing.TB, command ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
