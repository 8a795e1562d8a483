//go:build chaos

package tuning

import (
	"fmt"
	"os"
	"time"

	"github.com/belfryhq/belfry/cluster"
)

const (
	snapshotsVar = "BELFRY_SNAPSHOTS"
	stuckVar     = "BELFRY_STUCK"
	calmVar      = "BELFRY_CALM"
	stepVar      = "BELFRY_STEP_PAUSE"
	muteFileVar  = "BELFRY_GOSSIP_MUTE_FILE"
	replaceVar   = "BELFRY_REPLACE_AFTER"
)

// Apply changes the settings of a node by the environment variables. BELFRY_SNAPSHOTS makes snapshots independent of
// the size of the state, so that a follower that was away for a moment needs one. Gossip is lost while the first eight
// bytes of the file that BELFRY_GOSSIP_MUTE_FILE names are not zero.
func Apply(cfg *cluster.Config) error {
	if text := os.Getenv(snapshotsVar); text != "" {
		if _, err := fmt.Sscanf(text, "%d,%d", &cfg.Snapshots.Log, &cfg.Snapshots.Tail); err != nil {
			return fmt.Errorf("%s=%s: %w", snapshotsVar, text, err)
		}
		cfg.Snapshots.Part = 1e-6
	}
	for variable, to := range map[string]*time.Duration{
		stuckVar: &cfg.Timing.Stuck, calmVar: &cfg.Calm, stepVar: &cfg.StepPause, replaceVar: &cfg.ReplaceAfter,
	} {
		if err := span(variable, to); err != nil {
			return err
		}
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

// span sets a duration by an environment variable, if that is set.
func span(variable string, to *time.Duration) error {
	text := os.Getenv(variable)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	*to = d
	return nil
}
