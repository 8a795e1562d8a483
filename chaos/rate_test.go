package chaos_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/internal/gated"
)

// tasksVar is the number of tasks of the long form of TestTasksMoveAtTheirRate.
const tasksVar = "BELFRY_CHAOS_TASKS"

// moveSize is the size of a run of TestTasksMoveAtTheirRate.
type moveSize struct {
	tasks int
	rate  string  // --move-rate
	bytes float64 // the same as a number
}

func sizeOfMove(t *testing.T) moveSize {
	t.Helper()
	if !gated.Has(gated.Long) {
		return moveSize{tasks: 60_000, rate: "512KiB", bytes: 512 << 10}
	}
	size := moveSize{tasks: 1_000_000, rate: "8MiB", bytes: 8 << 20}
	if text := os.Getenv(tasksVar); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", tasksVar, err)
		}
		size.tasks = n
	}
	return size
}

// mostExcess returns the most bytes of copies within any time beyond those that the rate allows for that time. They are
// pieces of a 16th of a second, or of 64 KiB: one that the limit allows at once, and late ones of each copy to the new
// node, two of shards and one of the control group, and of the line in which the copies wait.
func (s moveSize) mostExcess() float64 { return (1 + 3 + 1) * min(s.bytes/16, 64<<10) }

// TestTasksMoveAtTheirRate moves all tasks of a cluster to a new node under load: the node joins, and another one
// leaves. No node sends copies faster than --move-rate, and the new node has every task. A slow look at a counter makes
// copies seem slow, and never fast. Package copies tests the limit itself, in simulated time.
func TestTasksMoveAtTheirRate(t *testing.T) {
	gated.Need(t, gated.Real)
	play := shapes(t)
	size := sizeOfMove(t)
	var sent copies
	plan := siege.Plan{Name: "all tasks to a new node"}
	plan.Before = func(ctx context.Context, r *siege.Round) error { return fill(ctx, r.Stand(), size.tasks) }
	plan.Play = func(ctx context.Context, r *siege.Round) error {
		var err error
		sent, err = copiesDuring(ctx, r.Stand(), size.bytes, func() error {
			if err := r.Strike(ctx, faults.NodeJoins, 0, 0); err != nil {
				return err
			}
			return r.StrikeNode(ctx, faults.NodeLeaves, "node-1")
		})
		if err != nil {
			return err
		}
		return filled(ctx, r.Stand(), size.tasks, "node-4")
	}
	cfg := shortShape()
	// The log that stays behind a snapshot must not reach back to the first task, and must last for replicas that vote.
	cfg.Snapshots = "262144,16"
	if gated.Has(gated.Long) {
		cfg = siege.Config{PerSecond: 100, Bulk: 200, MaxDelay: 10 * time.Second, Drain: 3 * time.Minute, Shards: 12}
		cfg.Kept = time.Hour
		// A snapshot after about a third of each shard's tasks: the limit holds for snapshots, and not for entries.
		cfg.Snapshots = fmt.Sprintf("%d,64", 4*size.tasks)
	}
	cfg.Nodes, cfg.Spare, cfg.Args = 3, 1, []string{"--move-rate", size.rate}
	play("moved", cfg, plan, func(t *testing.T, report *siege.Report) {
		struck(faults.NodeLeaves, 1)(t, report)
		t.Log(sent)
		if sent.excess > size.mostExcess() {
			t.Errorf("%v: more than --move-rate %s", sent, size.rate)
		}
		if least := 50 * float64(size.tasks); sent.bytes < least {
			t.Errorf("%v: %d tasks are more", sent, size.tasks)
		}
	})
}
