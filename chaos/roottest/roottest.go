// Package roottest skips tests that need root and the kernel's help, unless BELFRY_CHAOS_ROOT is set. The command
// make chaos-root sets it. The tests make networks and mounts, and need the machine for themselves.
package roottest

import (
	"os"
	"testing"
)

const variable = "BELFRY_CHAOS_ROOT"

// Need skips a test, with a clear message, if BELFRY_CHAOS_ROOT is not set or supported returns an error.
func Need(t testing.TB, supported func() error) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("NOT TESTED: it needs root: make chaos-root runs it (%s is not set)", variable)
	}
	if err := supported(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
}
