//go:build chaos

package clocks

import "github.com/belfryhq/belfry/fsm/flaw"

// flawBlinds makes this node trust its own clock as if it were alone, if the flaw is on.
func flawBlinds(cfg *Config) {
	if flaw.BlindClock.On() {
		cfg.Directory = alone{}
	}
}

// alone is the directory of a node that knows no other.
type alone struct{}

func (alone) Nodes() []string { return nil }
func (alone) IsAlone() bool   { return true }
