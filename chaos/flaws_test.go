package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/siege"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/gated"
)

// sampledFlaws is the number of flaws that the short form seeds.
const sampledFlaws = 3

// seeded is a mistake that a node can be given, with the plan that exposes it and the invariants that it breaks.
type seeded struct {
	flaw       string
	invariants []string // at least one is found broken
	runs       int      // most rounds of the plan, one after the other on one cluster
	blows      []blow
	quiet      bool     // no load beside chases and races
	alone      bool     // shows only at the right moment, so no other flaw is played beside it
	keys       bool     // calls need keys, and the load is in two namespaces
	stage      []string // groups of faults that the stage must support
	env        []string
}

// noFlaw is the name of a run against nodes without a flaw.
const noFlaw = "none"

type blow struct {
	kind  string
	hold  time.Duration
	chase int // tasks that are moved and read again and again during the fault
	race  int // tasks that become due during the fault and are cancelled a moment later
	// behind is the delay of all clocks but the leader's during the fault. It makes the next leader take the cancels of a
	// race before it fires overdue tasks. Sound nodes with two slow clocks of three keep invariant 3, and break others.
	behind time.Duration
}

// often makes shards take snapshots often and keep almost no log entries behind them.
const often = "BELFRY_SNAPSHOTS=16384,4"

func flaws() []seeded {
	again := func(n int, b blow) []blow { return slices.Repeat([]blow{b}, n) }
	return []seeded{
		{flaw: "two-ids", invariants: []string{"4"}, runs: 1},
		{flaw: "forgotten-cancel", invariants: []string{"3"}, runs: 3},
		{flaw: "dropped-settle", invariants: []string{"9", "12"}, runs: 2},
		{flaw: "late-follow-up", invariants: []string{"18"}, runs: 2},
		{flaw: "stale-read", invariants: []string{"8"}, runs: 1, quiet: true, alone: true,
			blows: again(1, blow{kind: history.PauseLeader, hold: 2500 * time.Millisecond, chase: 24})},
		{flaw: "fire-before-commit", invariants: []string{"3"}, runs: 5, quiet: true, alone: true, stage: []string{"clock"},
			blows: again(3, blow{kind: faults.KillOrphaned, hold: time.Second, race: 1500, behind: 3 * time.Second})},
		{flaw: "dirty-restore", invariants: []string{"9", "11"}, runs: 3, env: []string{often},
			blows: again(2, blow{kind: history.PauseLeader, hold: 3 * time.Second})},
		{flaw: "blind-clock", invariants: []string{"1", "2"}, runs: 2, stage: []string{"clock"}, alone: true,
			blows: again(2, blow{kind: faults.LeaderClockAhead, hold: time.Second})},
		{flaw: "skipped-fsync", invariants: []string{"1", "13c"}, runs: 2, stage: []string{"disk"},
			blows: []blow{{kind: faults.PowerLossAll, hold: time.Second}}},
		{flaw: "doubled-instant", invariants: []string{"10"}, runs: 2},
		{flaw: "skipped-instant", invariants: []string{"10"}, runs: 2},
		{flaw: "crowded-group", invariants: []string{"16"}, runs: 3},
		{flaw: "kept-key", invariants: []string{"15"}, runs: 1, keys: true, quiet: true},
		{flaw: "foreign-list", invariants: []string{"15"}, runs: 1, keys: true},
	}
}

// TestSeededFlawsAreFound shows that the whole harness finds each of the mistakes in real nodes. It finds nothing wrong
// with nodes without a mistake under the same faults.
func TestSeededFlawsAreFound(t *testing.T) {
	gated.Need(t, gated.Real)
	localtest.Need(t)
	binary := localtest.Build(t, "chaos")
	wanted := sampleOfFlaws(t)
	for _, s := range wanted {
		t.Run(s.flaw, func(t *testing.T) {
			s.needs(t)
			if !s.alone {
				t.Parallel()
			}
			report := s.play(t, binary, "BELFRY_FLAW="+s.flaw)
			broken := brokenBy(report)
			t.Logf("%s: round %d of %d at most, %v: broken %v",
				s.flaw, len(report.Rounds), s.runs, report.Took.Round(time.Second/10), broken)
			if !s.found(report.Rounds[len(report.Rounds)-1]) {
				t.Errorf("none of the invariants %v was found broken", s.invariants)
			}
		})
	}
	t.Run(noFlaw, func(t *testing.T) { withoutFlaw(wanted).mustHold(t, binary) })
}

// sampleOfFlaws returns the flaws to seed.
func sampleOfFlaws(t *testing.T) (chosen []seeded) {
	t.Helper()
	all := map[string]seeded{}
	for _, s := range flaws() {
		all[s.flaw] = s
	}
	for _, name := range gated.Sample(t, sampledFlaws, slices.Collect(maps.Keys(all))...) {
		chosen = append(chosen, all[name])
	}
	return chosen
}

// withoutFlaw joins the faults of several flaws into one plan, to play against nodes without a flaw and with clocks that
// are right.
func withoutFlaw(chosen []seeded) seeded {
	all := seeded{flaw: noFlaw, runs: 1}
	for _, s := range chosen {
		if slices.Contains(s.stage, "disk") && lossyfs.Supported() != nil {
			continue
		}
		for _, b := range s.blows {
			b.behind = 0
			all.blows = append(all.blows, b)
		}
		all.stage = append(all.stage, s.stage...)
		all.env = append(all.env, s.env...)
		all.keys = all.keys || s.keys
	}
	return all
}

func (s seeded) needs(t *testing.T) {
	t.Helper()
	if slices.Contains(s.stage, "disk") {
		if err := lossyfs.Supported(); err != nil {
			t.Skipf("NOT TESTED: %s shows only after a power loss, which disks here cannot simulate: %v", s.flaw, err)
		}
	}
}

// found reports whether a round broke an invariant that the flaw must break.
func (s seeded) found(round *siege.RoundReport) bool {
	return slices.ContainsFunc(round.Findings, func(f check.Finding) bool {
		return f.Broken() && slices.Contains(s.invariants, f.Invariant)
	})
}

const calm = time.Second // pause before the first fault and after each fault

func (s seeded) play(t *testing.T, binary string, env ...string) *siege.Report {
	t.Helper()
	stage := s.stage
	if len(stage) == 0 {
		stage = []string{"none"}
	}
	report, err := siege.Run(t.Context(), siege.Config{
		Binary: binary, Dir: folder(t, s.flaw), Env: append(env, s.env...), Shards: 2, PerSecond: 120,
		Seed: seed(t), Keep: os.Getenv(keepVar) != "", Keys: s.keys, Rounds: s.runs, Stop: s.found,
		Faults: stage, MaxDelay: 1500 * time.Millisecond, Drain: s.drain(), Sample: 300, Limits: s.limits(),
		Progress: t.Output(),
		Plan:     &siege.Plan{Name: s.flaw, Quiet: s.quiet, Play: s.strike},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// drain is the time for the tasks of sound nodes to come to rest. With a flaw some tasks never do, so that a short time
// is enough.
func (s seeded) drain() time.Duration {
	if s.flaw == noFlaw {
		return time.Minute
	}
	return 6 * time.Second
}

func (s seeded) strike(ctx context.Context, r *siege.Round) error {
	if err := r.Pause(ctx, calm); err != nil {
		return err
	}
	for i, b := range s.blows {
		if err := b.land(ctx, r, i); err != nil {
			return err
		}
		if err := r.Pause(ctx, calm); err != nil {
			return err
		}
	}
	return nil
}

// The load schedules the tasks of a race raceAhead before the first of them is due. They become due within raceFor.
// Each is cancelled raceAfter after its due time, when the nodes that knew of its begun attempt may be dead.
const raceAhead, raceFor, raceAfter = 1500 * time.Millisecond, 600 * time.Millisecond, 500 * time.Millisecond

// land strikes one fault: as a race begins, or calm after the start of a chase.
func (b blow) land(ctx context.Context, r *siege.Round, i int) error {
	defer setBack(r.Stand().Clocks, "", 0)
	var beside sync.WaitGroup
	defer beside.Wait()
	stop := make(chan struct{})
	defer close(stop)
	name, begin := strconv.Itoa(i), time.Now()
	if b.chase > 0 {
		begin = begin.Add(calm)
		beside.Go(func() { r.Load().Chase(ctx, name, b.chase, stop) })
	}
	if b.race > 0 {
		begin = begin.Add(raceAhead)
		beside.Go(func() { r.Load().Race(ctx, name, b.race, begin, raceFor, raceAfter) })
	}
	if err := r.Pause(ctx, time.Until(begin)); err != nil {
		return err
	}
	var shard uint32 // 0: any
	if b.behind > 0 {
		shard = 1
		leaders, err := r.Leaders(ctx)
		if err != nil {
			return err
		}
		setBack(r.Stand().Clocks, leaders[shard], b.behind)
	}
	if err := r.Strike(ctx, b.kind, b.hold, shard); err != nil {
		return fmt.Errorf("%s: %w", b.kind, err)
	}
	return nil
}

// setBack sets all clocks back but one node's.
func setBack(clocks map[string]*stand.Shared, but string, by time.Duration) {
	for node, clock := range clocks {
		if node != but {
			clock.Set(-int64(by))
		}
	}
}

func (s seeded) mustHold(t *testing.T, binary string) {
	t.Helper()
	if report := s.play(t, binary); !report.OK() {
		t.Errorf("nodes without a flaw break %v\n%s", brokenBy(report), report.Markdown())
	}
}

// limits returns the limits on times, which show some flaws. Nodes without a flaw must keep them only if times are judged.
func (s seeded) limits() check.Limits {
	if s.flaw == noFlaw && !gated.Has(gated.Timed) {
		return check.Timeless()
	}
	l := stretched()
	l.Recover, l.FirstFire = 15*time.Second, 10*time.Second
	return l
}

func brokenBy(report *siege.Report) []string {
	var broken []string
	for _, f := range report.Findings {
		if report.Breaches[f.Invariant] > 0 {
			broken = append(broken, f.Invariant)
		}
	}
	return broken
}
