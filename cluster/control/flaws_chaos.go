//go:build chaos

package control

import "github.com/belfryhq/belfry/fsm/flaw"

// flawPromotesEarly reports whether replicas get a vote before they have caught up.
func flawPromotesEarly() bool { return flaw.EarlyVote.On() }
