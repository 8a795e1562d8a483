package main

import (
	"strings"
	"testing"
)

// The flag --version prints the same text as the command, even where an image sets the environment variable of its
// name.
func TestVersionFlag(t *testing.T) {
	t.Setenv("BELFRY_VERSION", "1.2.3")
	flag, code := belfry(t, "--version")
	command, _ := belfry(t, "version")
	if code != 0 || flag != command || !strings.HasPrefix(flag, "belfry dev (commit ") {
		t.Errorf("%d: %q, and the command prints %q", code, flag, command)
	}
	if out, code := belfry(t); code != 0 || !strings.Contains(out, "--version") {
		t.Errorf("%d\n%s", code, out)
	}
}
