package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/gated"
)

// stepPause is the pause of the nodes before each step of a move, so that short steps can be seen from outside.
const stepPause = 200 * time.Millisecond

// TestKillsAtStepsOfMoves kills nodes in the middle of moves of replicas, of splits, and of moves of slots, under load.
// The leader of the control group, which takes the steps, dies, and so do the source, the target, and in the long form
// a node whose replica leaves. The short form kills each of them at one step. The long form kills each of them at each
// step twice.
func TestKillsAtStepsOfMoves(t *testing.T) {
	gated.Need(t, gated.Real)
	parallelIfShort(t)
	localtest.Need(t)
	cfg := siege.Config{Sample: 300, PerSecond: 40, MaxDelay: time.Second}
	patience := time.Minute
	aims := faults.NewAims(1,
		faults.Aim{Moves: faults.Replica, Step: "promote", Part: faults.Receiver},
		faults.Aim{Moves: faults.Replica, Step: "transfer", Part: faults.Source},
		faults.Aim{Moves: faults.Replica, Step: "drop", Part: faults.Reconciler},
		faults.Aim{Moves: faults.Slots, Step: "copy", Part: faults.Receiver},
		faults.Aim{Moves: faults.Slots, Step: "seal", Part: faults.Source},
		faults.Aim{Moves: faults.Slots, Step: "drop", Part: faults.Reconciler},
	)
	if gated.Has(gated.Long) {
		cfg = siege.Config{Shards: 4, PerSecond: 100, Bulk: 100, MaxDelay: 5 * time.Second, Drain: 3 * time.Minute}
		cfg.Kept = time.Hour
		patience = 4 * time.Minute
		aims = faults.NewAims(2, slices.Concat(faults.ReplicaAims(), faults.SlotAims(), faults.RetreatAims())...)
	}
	plan := siege.Plan{
		Name: "kills at steps of moves", Play: siege.Aimed{Aims: aims, Pause: stepPause, Patience: patience}.Play,
	}
	cfg.Binary, cfg.Dir, cfg.Limits, cfg.Seed = localtest.Build(t, "chaos"), folder(t, "kills"), mild(), seed(t)
	cfg.Nodes, cfg.Round, cfg.Plan, cfg.Keep = 4, 1, &plan, true
	cfg.Env = []string{"BELFRY_CALM=1s", "BELFRY_STEP_PAUSE=" + stepPause.String()}
	report, err := siege.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", report.Markdown(), aims.Markdown())
	if !report.OK() {
		t.Fail()
	}
	for _, moves := range []string{faults.Replica, faults.Slots} {
		for _, aim := range aims.Left(moves) {
			t.Errorf("%s: hit %d times: nothing was shown", aim, aims.Hits(aim))
		}
	}
}
