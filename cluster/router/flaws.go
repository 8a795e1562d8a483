//go:build !chaos

package router

// flawReadsStale is false in this build, which has no seeded flaws; see package flaw.
func flawReadsStale() bool { return false }
