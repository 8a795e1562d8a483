//go:build chaos

package router

import "github.com/belfryhq/belfry/fsm/flaw"

// flawReadsStale reports whether nodes answer reads without proof of leadership.
func flawReadsStale() bool { return flaw.StaleRead.On() }
