//go:build chaos

package sim

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/internal/gated"
)

// caught maps each flaw that the simulation finds to a number of runs, from seed 0 on. At least one of these runs must
// fail. The sieges find the other flaws.
var caught = map[flaw.Flaw]uint64{
	flaw.ForgottenCancel: 2,
	flaw.DroppedSettle:   2,
	flaw.LateFollowUp:    2,
	flaw.StaleRead:       4,
	flaw.BlindClock:      4,
	flaw.EarlyVote:       2,
	flaw.EarlyRemoval:    2,
	flaw.KeptFiles:       4,
	flaw.UnboundChange:   4,
	flaw.SealedLate:      6,
	flaw.OpenBeforeSeal:  2,
	flaw.DropBeforeOpen:  6,
	flaw.DoubledInstant:  2,
	flaw.SkippedInstant:  2,
}

// moving reports whether only runs with moves of shards find a flaw.
func moving(f flaw.Flaw) bool {
	return slices.Contains([]flaw.Flaw{flaw.EarlyVote, flaw.EarlyRemoval, flaw.KeptFiles, flaw.UnboundChange}, f)
}

// ofSlots are the flaws that only moves of slots can show. Their runs have the pace of an hour and moves of slots.
var ofSlots = []flaw.Flaw{flaw.SealedLate, flaw.OpenBeforeSeal, flaw.DropBeforeOpen}

const flawVariable = "BELFRY_FLAW"

// sampledFlaws is the number of flaws that the short form seeds.
const sampledFlaws = 4

// TestFlawsAreCaught starts TestFlawed in processes that have a flaw each.
func TestFlawsAreCaught(t *testing.T) {
	if os.Getenv(flawVariable) != "" {
		t.Skip("this process has a flaw itself")
	}
	for _, f := range gated.Sample(t, sampledFlaws, slices.Collect(maps.Keys(caught))...) {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFlawed$", "-test.v", "-test.count=1")
			cmd.Env = append(os.Environ(), flawVariable+"="+string(f))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "caught") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// TestFlawed fails if no run catches the flaw of this process.
func TestFlawed(t *testing.T) {
	f := flaw.Flaw(os.Getenv(flawVariable))
	if !f.On() {
		t.Skip("this process has no flaw")
	}
	for _, seed := range seedsFor(f) {
		cfg := Draw(seed)
		switch {
		case moving(f):
			cfg = cfg.Moving().Short()
		case slices.Contains(ofSlots, f):
			cfg = cfg.Short()
		}
		if r := play(t, cfg); !r.OK() {
			t.Logf("caught by seed %d: %s", seed, strings.Join(r.breaches(), "; "))
			return
		}
	}
	t.Errorf("%s: %d runs hold", f, caught[f])
}

// seedsFor returns the seeds of the runs that must catch a flaw.
func seedsFor(f flaw.Flaw) (seeds []uint64) {
	for seed := uint64(0); uint64(len(seeds)) < caught[f]; seed++ {
		cfg := Draw(seed)
		if !slices.Contains(ofSlots, f) || cfg.Operations > 0 && cfg.pace.name == "hour" {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// breaches returns the first problem and the promises that do not hold.
func (r *Result) breaches() []string {
	var all []string
	if len(r.Problems) > 0 {
		all = append(all, r.Problems[0])
	}
	for _, f := range r.Verdict.Findings {
		if f.Broken() {
			all = append(all, f.Invariant+", "+f.Promise)
		}
	}
	return all
}
