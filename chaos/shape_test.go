package chaos_test

import (
	"os"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

// TestClusterChangesItsShapeUnderLoad takes a cluster of one node to three, five and three nodes under load, and to
// five replicas of each shard and back. The long form does so twice: undisturbed, and while nodes are killed.
func TestClusterChangesItsShapeUnderLoad(t *testing.T) {
	localtest.Need(t)
	binary := localtest.Build(t, "chaos")
	play := func(name string, cfg siege.Config, plan siege.Plan) {
		t.Run(name, func(t *testing.T) {
			cfg.Binary, cfg.Dir, cfg.Limits, cfg.Seed = binary, folder(t, name), stretched(), seed(t)
			cfg.Nodes, cfg.Spare, cfg.Round, cfg.Plan, cfg.Keep = 1, 4, 1, &plan, true
			cfg.Faults = []string{"shape", history.KillLeader, faults.KillAny}
			cfg.NoNetwork, cfg.NoDisks, cfg.NoClocks, cfg.NoGossip, cfg.NoMemory = true, true, true, true, true
			report, err := siege.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(report.Markdown())
			if !report.OK() {
				t.Fail()
			}
			if n := struckBy(report, faults.NodeJoins); n < 3 {
				t.Errorf("nodes joined %d times: nothing was shown", n)
			}
		})
	}
	planned := siege.Plan{Name: "1, 3, 5 and 3 nodes", Play: siege.GrowAndShrink}
	killed := func(pause time.Duration) siege.Plan {
		return siege.Plan{Name: "1, 3, 5 and 3 nodes, and kills", Play: siege.UnderKills(pause, siege.GrowAndShrink)}
	}
	if os.Getenv(lengthVar) == long {
		all := siege.Config{Shards: 12, PerSecond: 200, Bulk: 500, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute}
		play("planned", all, planned)
		play("killed", all, killed(15*time.Second))
		return
	}
	short := siege.Config{Sample: 500, PerSecond: 50, MaxDelay: 2 * time.Second, Env: []string{"BELFRY_CALM=1s"}}
	play("killed", short, killed(3*time.Second))
}
