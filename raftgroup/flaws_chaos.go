//go:build chaos

package raftgroup

import "github.com/belfryhq/belfry/fsm/flaw"

// flawIgnoresSeen reports whether changes of membership are made in any membership and term.
func flawIgnoresSeen() bool { return flaw.UnboundChange.On() }

// flawIgnoresLag reports whether members get a vote however many entries they lack.
func flawIgnoresLag() bool { return flaw.EarlyVote.On() }
