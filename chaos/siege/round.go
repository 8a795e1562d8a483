package siege

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// Round is a round under way. A plan acts on the cluster through its methods.
type Round struct {
	siege   *siege
	n       int
	seed    uint64
	dir     string
	rec     *history.Recorder
	loads   []*workload.Load // one for each namespace
	keys    *workload.Keeper // nil: calls need no keys
	began   time.Time
	loaded  time.Time     // when the load began; zero: there is none
	plan    *Plan         // nil: strikers strike
	planned atomic.Uint64 // number of faults struck by the plan
	waited  bool          // the round has waited for the healed cluster to be whole

	mu        sync.Mutex     // guards the fields below
	failed    []check.Breach // failures that are not in the record
	survivors []check.Breach // nodes that run on after a fault that must end them
}

// golden spreads the seeds of the rounds over 64 bits: 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

func (s *siege) newRound(ctx context.Context, n int, plan *Plan) (*Round, error) {
	r := &Round{
		siege: s, n: n, plan: plan, seed: s.cfg.Seed + uint64(n-1)*golden, began: time.Now(),
		dir: filepath.Join(s.cfg.Dir, fmt.Sprintf("round-%d", n)),
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	if r.rec, err = history.Create(filepath.Join(r.dir, "history.jsonl")); err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("r%d-", n)
	s.receiver.Record(r.rec, prefix)
	return r, r.openLoads(ctx, prefix)
}

// play plays round n and judges it.
func (s *siege) play(ctx context.Context, n int) (*RoundReport, error) {
	plan := s.planOf(n)
	if plan != nil && len(plan.apart) > 0 {
		return s.playApart(ctx, n, plan)
	}
	return s.playPlan(ctx, n, plan)
}

func (s *siege) playPlan(ctx context.Context, n int, plan *Plan) (*RoundReport, error) {
	s.stand.Logs.Begin()
	r, err := s.newRound(ctx, n, plan)
	if err != nil {
		return nil, err
	}
	err = r.run(ctx)
	if err = errors.Join(err, r.rec.Close()); err != nil {
		return nil, err
	}
	report, err := r.judge()
	if err == nil {
		s.rested += report.Tasks.Acknowledged
	}
	return report, err
}

// run plays a round up to its verdict. Only the plan and the strikers heed ctx: an interrupted round is healed, drained
// and judged like any other.
func (r *Round) run(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	watching, unwatch := context.WithCancel(whole)
	var companions sync.WaitGroup
	failed := make([]error, 1+len(r.loads))
	companions.Go(func() { failed[0] = faults.Watch(watching, r.siege.stand.Cluster, r.rec) })
	for i, l := range r.loads {
		companions.Go(func() { failed[1+i] = l.Probe(watching, r.siege.cfg.Shards) })
		companions.Go(func() { l.Consume(watching) })
		companions.Go(func() { l.Forge(watching) })
	}
	endKeys := r.changeKeys(watching)
	err := r.storm(ctx, whole)
	if err == nil {
		r.drain(whole)
	}
	endKeys()
	unwatch()
	companions.Wait()
	if err = errors.Join(append(failed, err)...); err != nil {
		return err
	}
	r.inspect(whole)
	return errors.Join(r.inTime(), r.removeKeys(whole))
}

// inTime returns an error if the load took so long that its first tasks could not be read at its end. They would look
// lost.
func (r *Round) inTime() error {
	if r.loaded.IsZero() {
		return nil
	}
	if took, kept := time.Since(r.loaded), r.siege.cfg.kept(); took > kept {
		return fmt.Errorf("the round took %v, and finished tasks can be read for %v only: Config.Kept sets it", took, kept)
	}
	return nil
}

const (
	headStart = 1500 * time.Millisecond // of the load before the first fault
	aftermath = 1500 * time.Millisecond // of the load after everything is healed
)

// storm runs the load and the faults until everything is healed.
func (r *Round) storm(ctx, whole context.Context) error {
	plan := r.plan
	if plan == nil {
		plan = &Plan{Play: func(ctx context.Context, r *Round) error { return r.strikeAll(ctx) }}
	}
	if plan.Before != nil {
		if err := plan.Before(ctx, r); err != nil {
			return err
		}
	}
	stop := func() {}
	if !plan.Quiet {
		stop = r.startLoad(whole)
		wait.For(ctx, headStart)
	}
	defer stop()
	err := plan.Play(ctx, r)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // interrupted
	}
	if err := errors.Join(err, r.heal(whole)); err != nil {
		return err
	}
	wait.For(whole, aftermath)
	return nil
}

// startLoad starts the load. The returned stop waits for the calls under way. If the cluster has not come back, stop
// cancels them, because they would be repeated in vain.
func (r *Round) startLoad(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var load sync.WaitGroup
	r.loaded = time.Now()
	failed := make([]error, 2*len(r.loads))
	for i, l := range r.loads {
		load.Go(func() { failed[len(r.loads)+i] = l.Repeat(ctx, ended) })
		failed[i] = l.Order(ctx)
		if r.siege.cfg.Kept > 0 {
			failed[i] = errors.Join(failed[i], l.Keep(ctx))
		}
		load.Go(func() { l.Run(ctx, ended) })
		if r.siege.cfg.Bulk > 0 {
			load.Go(func() { failed[i] = errors.Join(failed[i], l.Bulk(ctx, ended)) })
		}
	}
	return func() {
		close(ended)
		if r.hasFailed() {
			cancel()
		}
		load.Wait()
		cancel()
		if err := errors.Join(failed...); err != nil {
			r.fail("%v", err)
		}
	}
}

// healLimit is the longest wait for a cluster on a mended stage. A cluster that is not back by then fails the round.
const healLimit = 30 * time.Second

// heal mends the stage, starts every node that does not run, and waits until all shards have leaders.
func (r *Round) heal(ctx context.Context) error {
	r.siege.receiver.Behave(workload.Mood{})
	if err := r.siege.stand.Heal(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	err := r.siege.stand.AwaitReady(ctx, healLimit, r.siege.stand.Names()...)
	if err != nil && ctx.Err() == nil {
		// A node whose disk failed just before was still ending, so Heal did not start it.
		err = errors.Join(r.siege.stand.Heal(), r.siege.stand.AwaitReady(ctx, healLimit, r.siege.stand.Names()...))
	}
	if err != nil {
		r.fail("after everything was healed: %v", err)
	}
	if _, err = r.Leaders(ctx); err != nil {
		r.fail("after everything was healed: %v", err)
	}
	r.waited = true
	return nil
}

// soon is the longest delay that a round waits for: later tasks are left alone.
const soon = 10 * time.Minute

// drain waits until every task has come to rest, at most for Config.Drain. The verdict judges the tasks that have not.
func (r *Round) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.siege.cfg.Drain)
	defer cancel()
	for _, l := range r.loads {
		l.Drain(ctx, soon)
	}
}

// inspect reads the tasks and replicas of a cluster at rest.
func (r *Round) inspect(ctx context.Context) {
	settle, cancel := context.WithTimeout(ctx, r.siege.cfg.Drain)
	defer cancel()
	if err := faults.RecordReplicas(settle, r.siege.stand, r.rec); err != nil {
		r.fail("%v", err)
	}
	reading := ctx
	if r.hasFailed() {
		reading = settle // a cluster that is not back would be asked for every task in vain
	}
	for _, l := range r.loads {
		err := errors.Join(l.ReadAll(reading, r.siege.cfg.Sample/len(r.loads)), l.CountSchedules(reading))
		if err != nil {
			r.fail("%v", err)
		}
	}
	r.printTasks(settle)
}

func (r *Round) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failed) > 0
}

// fail notes a breach that is not in the record.
func (r *Round) fail(format string, args ...any) { r.note(&r.failed, fmt.Sprintf(format, args...)) }

func (r *Round) note(to *[]check.Breach, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, check.Breach{At: r.rec.Now(), What: what})
}

// Plan replaces the strikers of a round.
type Plan struct {
	Name  string
	Quiet bool // no load beside the plan
	Play  func(ctx context.Context, r *Round) error

	// Before prepares the cluster before the load begins; nil: nothing does.
	Before func(ctx context.Context, r *Round) error

	apart []string // faults that it needs on a stand of its own; none: it plays on the siege's
}

// Stand returns the cluster of the round.
func (r *Round) Stand() *stand.Stand { return r.siege.stand }

// Recorder returns the record of the round.
func (r *Round) Recorder() *history.Recorder { return r.rec }

// Nodes returns the nodes for calls in the default namespace.
func (r *Round) Nodes() []workload.Node { return r.targets("") }

// Load returns the round's load in the default namespace.
func (r *Round) Load() *workload.Load { return r.loads[0] }

// Leaders waits until all shards have leaders, and returns the name of each shard's leader. It fails after leadLimit,
// with what the cluster showed last.
func (r *Round) Leaders(ctx context.Context) (map[uint32]string, error) {
	ctx, cancel := context.WithTimeout(ctx, leadLimit)
	defer cancel()
	for {
		view, err := r.siege.stand.View(ctx)
		if err == nil && len(view.Shards) >= r.siege.cfg.Shards {
			if leaders := stand.LeadersIn(view); len(leaders) == len(view.Shards) {
				return leaders, nil
			}
		}
		if !wait.For(ctx, tryAgain) {
			return nil, errors.Join(fmt.Errorf("not all of %d shards have leaders: %s", r.siege.cfg.Shards, leaderless(view)),
				err, context.Cause(ctx))
		}
	}
}

// leaderless describes the shards of a view that have no leader, and the nodes that do not answer.
func leaderless(view *client.Cluster) string {
	if view == nil {
		return "no node shows the cluster"
	}
	var b strings.Builder
	b.WriteString("nodes away:")
	for _, n := range view.Nodes {
		if !n.Alive {
			fmt.Fprintf(&b, " %s", n.Name)
		}
	}
	fmt.Fprintf(&b, "; control group led by %q in term %d", view.Control.Leader, view.Control.Term)
	for _, shard := range view.Shards {
		if view.Node(shard.Leader) == nil {
			fmt.Fprintf(&b, "; shard %d in term %d: %+v", shard.ID, shard.Term, shard.Replicas)
		}
	}
	return b.String()
}

const (
	tryAgain  = 100 * time.Millisecond
	busyLimit = time.Minute // longest wait for the target of a planned fault to become free
	leadLimit = time.Minute // longest wait for the leaders of all shards: no fault lasts as long
)

// Strike strikes one fault by the name of its kind, and returns when the fault is mended. A kind that strikes leaders
// strikes the leader of the given shard (0: of any). Strike waits until all shards have leaders and the fault's target
// is free.
func (r *Round) Strike(ctx context.Context, kind string, hold time.Duration, shard uint32) error {
	return r.strike(ctx, kind, func(on *faults.Target) { on.Hold, on.Shard = hold, shard })
}

// StrikeNode strikes a fault of one node, as Strike does.
func (r *Round) StrikeNode(ctx context.Context, kind, node string) error {
	return r.strike(ctx, kind, func(on *faults.Target) { on.Node = node })
}

func (r *Round) strike(ctx context.Context, kind string, aim func(on *faults.Target)) error {
	all := faults.Kinds()
	i := slices.IndexFunc(all, func(k faults.Kind) bool { return k.Name == kind })
	if i < 0 {
		return fmt.Errorf("there is no fault %q", kind)
	}
	if _, err := r.Leaders(ctx); err != nil {
		return err
	}
	on := r.target(rand.New(rand.NewPCG(r.seed, r.planned.Add(1))))
	aim(&on)
	for end := time.Now().Add(busyLimit); ; {
		err := all[i].Strike(ctx, on)
		if err == nil {
			return nil
		}
		if !errors.Is(err, faults.ErrBusy) || time.Now().After(end) || !wait.For(ctx, tryAgain) {
			return r.noteSurvival(kind, err)
		}
	}
}

// Pause lets the round go on for a while without a new fault.
func (r *Round) Pause(ctx context.Context, d time.Duration) error {
	if !wait.For(ctx, d) {
		return ctx.Err()
	}
	return nil
}

const (
	minHold  = 300 * time.Millisecond
	maxHold  = 5 * time.Second
	maxPause = 2 * time.Second // longest pause of a striker between two faults
	busyWait = 200 * time.Millisecond
)

// strikeAll runs all strikers until the round's time is up, and returns when all their faults are mended.
func (r *Round) strikeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.siege.cfg.Strike)
	defer cancel()
	if len(r.siege.kinds) == 0 {
		<-ctx.Done() // the load runs alone
		return nil
	}
	failed := make([]error, r.siege.cfg.Strikers)
	var strikers sync.WaitGroup
	for i := range failed {
		rng := rand.New(rand.NewPCG(r.seed, uint64(i+1)))
		strikers.Go(func() { failed[i] = r.strikeOn(ctx, rng) })
	}
	strikers.Wait()
	return errors.Join(failed...)
}

// strikeOn strikes one fault after the other. Each fault has its own source of choices. The number of choices that a
// fault makes therefore does not change the choices after it.
func (r *Round) strikeOn(ctx context.Context, rng *rand.Rand) error {
	for wait.For(ctx, time.Duration(rng.Int64N(int64(maxPause)))) {
		kind := choose(rng, r.siege.kinds)
		on := r.target(rand.New(rand.NewPCG(rng.Uint64(), 0)))
		on.Hold = minHold + time.Duration(rng.Int64N(int64(maxHold-minHold)))
		switch err := kind.Strike(ctx, on); {
		case errors.Is(err, faults.ErrBusy):
			wait.For(ctx, busyWait)
		case err != nil:
			if err := r.noteSurvival(kind.Name, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteSurvival notes a node that runs on after a fault that must end it. It returns any other error of a fault.
func (r *Round) noteSurvival(kind string, err error) error {
	var survival *faults.SurvivalError
	if errors.As(err, &survival) {
		r.note(&r.survivors, fmt.Sprintf("%s: %v", kind, err))
		return nil
	}
	return fmt.Errorf("%s: %w", kind, err)
}

func (r *Round) target(rng *rand.Rand) faults.Target {
	return faults.Target{Stand: r.siege.stand, Recorder: r.rec, Receiver: r.siege.receiver, Rand: rng}
}

// choose picks a kind by weight.
func choose(rng *rand.Rand, kinds []faults.Kind) faults.Kind {
	total := 0
	for _, k := range kinds {
		total += k.Weight
	}
	n := rng.IntN(total)
	for _, k := range kinds {
		if n -= k.Weight; n < 0 {
			return k
		}
	}
	panic("weights do not add up")
}
