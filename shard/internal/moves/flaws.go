//go:build !chaos

package moves

import "context"

// This build has no seeded flaws; see package flaw.

func flawReadsUnsealed() bool { return false }

func flawSealsLate(context.Context, *Target, Pull) error { return nil }
