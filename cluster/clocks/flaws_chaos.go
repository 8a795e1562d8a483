//go:build chaos

package clocks

import "github.com/belfryhq/belfry/fsm/flaw"

// flawBlinds makes this node trust its own clock as if it were alone, if the flaw is on.
func flawBlinds(cfg *Config) {
	if flaw.BlindClock.On() {
		cfg.Peers = func() []string { return nil }
		cfg.Alone = func() bool { return true }
	}
}
