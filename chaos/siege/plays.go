package siege

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/wait"
)

// Thorough is the length of the shortest siege with all faults that puts each invariant to the test. Some invariants
// need a fault that comes alone, which random faults rarely do. The first of each drillEvery rounds is a drill. On a
// stand with a network the second one is a drill, too.
const (
	Thorough   = 10 * time.Minute
	drillEvery = 8
)

// drills reports whether some rounds of the siege are drills.
func (c Config) drills() bool {
	return c.For >= Thorough && c.all() && c.Plan == nil && !c.Soak
}

// all reports whether the siege has all faults.
func (c Config) all() bool { return len(c.Faults) == 0 || slices.Contains(c.Faults, allFaults) }

// drilled returns the requested length of a siege with drills, and 0 for any other siege.
func (c Config) drilled() time.Duration {
	if c.drills() {
		return c.For
	}
	return 0
}

// thorough reports whether the siege must put each invariant to the test.
func (c Config) thorough() bool { return c.drills() && c.Round == 0 && c.Rounds == 0 }

// planOf returns the plan of round n. Nil: strikers strike.
func (s *siege) planOf(n int) *Plan {
	switch {
	case s.cfg.Plan != nil:
		return s.cfg.Plan
	case !s.cfg.drills():
		return nil
	case n%drillEvery == 1:
		return &Plan{Name: "drill of faults that come alone", Play: drill}
	case n%drillEvery == 2 && s.stand.Network != nil && !s.cfg.NoGossip:
		return &Plan{Name: "drill of forged gossip, on loopback", Play: drillForgery, apart: []string{history.ForgedGossip}}
	case n%drillEvery == 3 && s.cfg.Other != "":
		return &Plan{Name: "drill of a rolling upgrade", Play: UpgradeUnderFire, apart: upgradeFaults}
	}
	return nil
}

const (
	drillCalm    = 3 * time.Second         // after a fault, until its effects are over
	drillDead    = 2500 * time.Millisecond // longer than a failover
	drillClock   = 2 * time.Second
	drillSilence = 10 * time.Second // longer than it takes until a silent node is called dead
	drillForged  = 40 * time.Second
	drillPath    = 20 * time.Second
	drillFlood   = 4 * time.Second
	drillKills   = 3 // leaders killed, one after the other
)

// drill strikes one fault after the other, each alone. Silent gossip comes first, because calls count for it only long
// after other faults. The start of all nodes comes last, because its first arrival may come long after the start.
func drill(ctx context.Context, r *Round) error {
	steps := []blow{{history.SilentGossip, drillSilence, 0}, {history.ForgedGossip, drillForged, 0}}
	for i := range drillKills {
		steps = append(steps, blow{history.KillLeader, drillDead, uint32(1 + i%r.siege.cfg.Shards)})
	}
	steps = append(steps, []blow{
		{history.OnePath, drillPath, 0}, {faults.RollingRestart, drillClock, 0}, {faults.LeaderClockAhead, drillClock, 0},
		{faults.FailedSync, drillClock, 0}, {history.HalfSent, drillFlood, 0}, {faults.DamagedFile, 0, 0},
		{faults.KillMost, 0, 0}, {history.KillAll, drillDead, 0},
	}...)
	for _, b := range steps {
		if back, err := r.strikeAlone(ctx, b); err != nil || !back {
			return err
		}
	}
	return r.Pause(ctx, check.DefaultLimits().FirstFire) // also if the siege judges no times
}

// drillForgery forges gossip for drillForged and then watches the cluster for a quarter of that time.
func drillForgery(ctx context.Context, r *Round) error {
	if back, err := r.strikeAlone(ctx, blow{history.ForgedGossip, drillForged, 0}); err != nil || !back {
		return err
	}
	return r.Pause(ctx, drillForged/4)
}

// upgradeFaults are the faults of UpgradeUnderFire.
var upgradeFaults = []string{faults.RollingUpgrade, history.KillLeader}

// UpgradeUnderFire changes the build of all nodes, one after the other, and back, while leaders are killed. It is the
// play of a Plan.
func UpgradeUnderFire(ctx context.Context, r *Round) error {
	upgrade := func(ctx context.Context, r *Round) error { return r.Strike(ctx, faults.RollingUpgrade, drillCalm, 0) }
	return r.During(ctx, upgrade, func(playing context.Context) error {
		err := r.Strike(ctx, history.KillLeader, drillDead, 0)
		wait.For(playing, drillCalm)
		return err
	})
}

// During plays a plan, and calls again one time after the other until the plan is over or a call fails. The context of
// the calls ends with the plan.
func (r *Round) During(
	ctx context.Context, play func(context.Context, *Round) error, again func(playing context.Context) error,
) error {
	playing, over := context.WithCancel(ctx)
	played := make(chan error, 1)
	go func() {
		defer over()
		played <- play(ctx, r)
	}()
	var err error
	for err == nil && playing.Err() == nil {
		err = again(playing)
	}
	return errors.Join(err, <-played)
}

// blow is one fault of a drill.
type blow struct {
	kind  string
	hold  time.Duration
	shard uint32 // shard whose leader is struck; 0: any
}

// strikeAlone strikes one fault when nothing else is broken and the cluster is whole again. It skips a fault that
// cannot strike on this stage. It reports whether the cluster came back; if not, the drill is over.
func (r *Round) strikeAlone(ctx context.Context, b blow) (back bool, err error) {
	if !slices.ContainsFunc(r.siege.kinds, func(k faults.Kind) bool { return k.Name == b.kind }) {
		return true, nil
	}
	waiting, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	err = r.siege.stand.AwaitReady(waiting, healLimit, r.siege.stand.Names()...)
	if err == nil {
		_, err = r.Leaders(waiting)
	}
	if err != nil && ctx.Err() == nil {
		r.fail("before the %s: %v", b.kind, err)
		return false, nil
	}
	if err := r.Pause(ctx, drillCalm); err != nil {
		return true, err
	}
	return true, r.Strike(ctx, b.kind, b.hold, b.shard)
}

// playApart plays a round on a stand of its own on loopback, because only there can the nodes' gossip be forged. A
// siege with all faults has two builds there alone.
func (s *siege) playApart(ctx context.Context, n int, plan *Plan) (round *RoundReport, err error) {
	cfg := s.cfg
	cfg.Dir, cfg.Faults = filepath.Join(cfg.Dir, "apart-"+strconv.Itoa(n)), plan.apart
	kinds, err := chosen(cfg.Faults)
	if err != nil {
		return nil, err
	}
	apart := &siege{cfg: cfg, report: s.report}
	defer func() {
		closed := apart.close()
		if apart.stand != nil {
			closed = errors.Join(closed, apart.epilogue())
		}
		err = errors.Join(err, closed)
	}()
	if err := apart.open(ctx, kinds); err != nil {
		return nil, err
	}
	return apart.playPlan(ctx, n, plan)
}

// Aimed is a play that kills nodes at the steps of moves. It moves replicas until each aim about them was hit, and then
// slots. The nodes run with BELFRY_STEP_PAUSE, so that short steps can be seen from outside.
type Aimed struct {
	Aims     *faults.Aims
	Pause    time.Duration // BELFRY_STEP_PAUSE of the nodes
	Patience time.Duration // no move of replicas, or of slots, begins after this time
}

// The times of an aimed kill.
const (
	aimedDead  = 300 * time.Millisecond // shortest time that the node is dead,
	aimedDelay = 700 * time.Millisecond // and most that is added to it
)

// Play is the play of a Plan.
func (a Aimed) Play(ctx context.Context, r *Round) error {
	return errors.Join(
		a.phase(ctx, r, faults.Replica, func(int) string { return faults.NodeDrains }),
		a.phase(ctx, r, faults.Slots, slotChange),
	)
}

// mostSplits is the number of splits of a play, since each makes a shard that stays.
const mostSplits = 4

// slotChange returns the kind of the i-th change: at first every third one is a split, and the others are moves between
// the shards.
func slotChange(i int) string {
	if i%3 == 0 && i/3 < mostSplits {
		return faults.ShardSplits
	}
	return faults.SlotsMove
}

// phase moves things by the kinds of changes in turn until each aim about them was hit.
func (a Aimed) phase(ctx context.Context, r *Round, moves string, kind func(i int) string) error {
	end := time.Now().Add(a.Patience)
	for i := 0; len(a.Aims.Left(moves)) > 0 && time.Now().Before(end) && ctx.Err() == nil; i++ {
		if err := a.change(ctx, r, moves, kind(i)); err != nil {
			return err
		}
	}
	return nil
}

// killsEach is the number of kills in one change. A move of slots begins anew after most of them, and would not end if
// they did not.
const killsEach = 4

// change strikes a change of the shape. While it is under way and a kill is wanted, change strikes aimed kills, one
// after the other. Between two of them all shards have leaders.
func (a Aimed) change(ctx context.Context, r *Round, moves, kind string) error {
	change := func(ctx context.Context, r *Round) error { return r.Strike(ctx, kind, 0, 0) }
	left := killsEach
	return r.During(ctx, change, func(playing context.Context) error {
		if left--; left < 0 || len(a.Aims.Left(moves)) == 0 {
			<-playing.Done()
			return nil
		}
		if _, err := r.Leaders(playing); err != nil {
			return nil // the change is over
		}
		rng := rand.New(rand.NewPCG(r.seed, r.planned.Add(1)))
		on := r.target(rng)
		on.Hold = aimedDead + time.Duration(rng.Int64N(int64(aimedDelay)))
		if err := faults.KillAimed(playing, on, a.Aims, a.Pause); err != nil && !errors.Is(err, faults.ErrBusy) {
			return err
		}
		return nil
	})
}
