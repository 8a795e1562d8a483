//go:build !chaos

package clocks

// flawBlinds does nothing in this build, which has no seeded flaws; see package flaw.
func flawBlinds(*Config) {}
