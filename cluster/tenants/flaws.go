//go:build !chaos

package tenants

// flawKeepsKeys does nothing in this build, which has no seeded flaws; see package flaw.
func flawKeepsKeys(_, _ *roster) {}
