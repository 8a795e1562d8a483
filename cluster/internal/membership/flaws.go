//go:build !chaos

package membership

// flawSkipsCheck is false in this build, which has no seeded flaws; see package flaw.
func flawSkipsCheck() bool { return false }
