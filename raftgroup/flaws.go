//go:build !chaos

package raftgroup

// This build has no seeded flaws; see package flaw.

func flawIgnoresSeen() bool { return false }

func flawIgnoresLag() bool { return false }
