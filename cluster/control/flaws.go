//go:build !chaos

package control

// flawPromotesEarly is false in this build, which has no seeded flaws; see package flaw.
func flawPromotesEarly() bool { return false }
