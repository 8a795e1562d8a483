//go:build chaos

package clocks

import "github.com/belfryhq/belfry/fsm/flaw"

// flawBlinds keeps the clocks from comparing this node's with others: it goes by its own as if it were alone.
func flawBlinds(cfg *Config) {
	if flaw.BlindClock.On() {
		cfg.Peers = func() []string { return nil }
		cfg.Alone = func() bool { return true }
	}
}
