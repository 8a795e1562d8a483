//go:build chaos

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/cluster"
)

const (
	snapshotsVar = "BELFRY_SNAPSHOTS"
	stuckVar     = "BELFRY_STUCK"
	muteFileVar  = "BELFRY_GOSSIP_MUTE_FILE"
)

// tune changes what only tests change: BELFRY_SNAPSHOTS is how many bytes of log make a shard's snapshot due, however
// large the state is, and how many entries are kept after one, as "65536,8". A follower that was away for a moment then
// needs one. BELFRY_STUCK is how long a leader may commit nothing before its node ends, as "3s". While the eight bytes
// of the file that BELFRY_GOSSIP_MUTE_FILE names are not zero, all gossip is lost.
func tune(cfg *cluster.Config) error {
	if text := os.Getenv(snapshotsVar); text != "" {
		if _, err := fmt.Sscanf(text, "%d,%d", &cfg.Snapshots.Log, &cfg.Snapshots.Tail); err != nil {
			return fmt.Errorf("%s=%s: %w", snapshotsVar, text, err)
		}
		cfg.Snapshots.Part = 1e-6
	}
	if text := os.Getenv(stuckVar); text != "" {
		stuck, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s: %w", stuckVar, err)
		}
		cfg.Timing.Stuck = stuck
	}
	if path := os.Getenv(muteFileVar); path != "" {
		muted, err := mapInt64(path)
		if err != nil {
			return fmt.Errorf("%s: %w", muteFileVar, err)
		}
		cfg.GossipMuted = func() bool { return muted.Load() != 0 }
	}
	return nil
}
