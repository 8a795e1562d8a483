//go:build !chaos

package replicas

// flawKeepsFiles is false in this build, which has no seeded flaws; see package flaw.
func flawKeepsFiles() bool { return false }
