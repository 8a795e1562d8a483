// Package roottest decides whether tests run that need root and the kernel's help. They run only when they are asked
// for by BELFRY_CHAOS_ROOT, as make chaos-root does: they make networks and mounts, and want the machine for
// themselves.
package roottest

import (
	"os"
	"testing"
)

const variable = "BELFRY_CHAOS_ROOT"

// Need skips a test, loudly, that was not asked for, or that cannot run here for the reason that supported gives.
func Need(t testing.TB, supported func() error) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("NOT TESTED: it needs root: make chaos-root runs it (%s is not set)", variable)
	}
	if err := supported(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
}
