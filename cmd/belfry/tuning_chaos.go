//go:build chaos

package main

import (
	"fmt"
	"os"

	"github.com/belfryhq/belfry/cluster"
)

const snapshotsVar = "BELFRY_SNAPSHOTS"

// tune changes what only tests change: BELFRY_SNAPSHOTS is how many bytes of log make a shard's snapshot due, however
// large the state is, and how many entries are kept after one, as "65536,8". A follower that was away for a moment then
// needs one.
func tune(cfg *cluster.Config) error {
	text := os.Getenv(snapshotsVar)
	if text == "" {
		return nil
	}
	if _, err := fmt.Sscanf(text, "%d,%d", &cfg.Snapshots.Log, &cfg.Snapshots.Tail); err != nil {
		return fmt.Errorf("%s=%s: %w", snapshotsVar, text, err)
	}
	cfg.Snapshots.Part = 1e-6
	return nil
}
