package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	probeDelay   = time.Hour
	probeEvery   = 100 * time.Millisecond
	probeTimeout = time.Second
)

// Probe writes to every shard ten times a second until ctx ends, so that the record shows when each shard takes a
// write. The writes touch tasks that are due long after the run. Probe cancels these tasks in the end. An error means
// that the tasks could not be placed.
//
// The tasks are spread evenly over the slots. So shards that get slots during the run are written to as well, the less
// often the more there are.
func (l *Load) Probe(ctx context.Context, shards int) error {
	ids, tried, err := l.placeProbes(ctx, shards*probeIDs)
	defer l.removeProbes(context.WithoutCancel(ctx), tried)
	if err != nil {
		return err
	}
	var probes sync.WaitGroup
	for part := range slices.Chunk(ids, probeIDs) {
		probes.Go(func() {
			l.probe(ctx, rand.New(rand.NewPCG(l.cfg.Seed, uint64(history.SlotIn(l.cfg.Namespace, part[0])))), part)
		})
	}
	probes.Wait()
	return nil
}

// probeIDs is how many tasks of a shard take turns, so that no id has too many calls to be judged.
const probeIDs = 16

// placeProbes cuts the slots into equal parts and schedules a task in each, in their order. It tries another id of the
// part after a schedule that a cluster in trouble does not take. The end of ctx is no error: the run is over then.
// tried holds every id that was tried, because a task that is not cancelled may be delivered an hour later.
func (l *Load) placeProbes(ctx context.Context, parts int) (ids, tried []string, err error) {
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	for n := 0; len(ids) < parts; n++ {
		id := fmt.Sprintf("%sprobe-%d", l.cfg.Prefix, n)
		if int(history.SlotIn(l.cfg.Namespace, id))*parts/history.Slots != len(ids) {
			continue
		}
		tried = append(tried, id)
		answer, ok := l.player.New(ctx, rng, id, load.Task{Delay: probeDelay})
		switch {
		case ctx.Err() != nil:
			return nil, tried, nil
		case !ok && load.Final(history.Failed, answer):
			return nil, tried, fmt.Errorf("placing %s: %s", id, answer.Error)
		case len(tried) > 100*parts:
			return nil, tried, fmt.Errorf("%d schedules placed only %d of %d probes", len(tried), len(ids), parts)
		case ok:
			ids = append(ids, id)
		}
	}
	return ids, tried, nil
}

// removeProbes cancels the probes, so that they do not arrive during a later run on the same cluster. RetryFor bounds
// all cancels together, so that a dead cluster does not cost RetryFor for each id.
func (l *Load) removeProbes(ctx context.Context, ids []string) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.RetryFor)
	defer cancel()
	rng := rand.New(rand.NewPCG(l.cfg.Seed, 0))
	for _, id := range ids {
		l.player.Perform(ctx, rng, l.player.Cancel(id))
	}
}

// probe begins a write at every tick, whether or not earlier writes still wait. A write that is stuck at a dead leader
// must not hide that the next one would pass. The ids take turns in a random order, because neighbours go to one shard
// when slots move.
func (l *Load) probe(ctx context.Context, rng *rand.Rand, ids []string) {
	var writes sync.WaitGroup
	defer writes.Wait()
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		node := l.anyNode(rng)
		op := l.player.Touch(ids[i%len(ids)], probeDelay, nil)
		writes.Go(func() { l.caller.call(context.WithoutCancel(ctx), node, probeTimeout, op) })
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// chasePause is the pause between two moves, so that chases are no load on the cluster.
const chasePause = 10 * time.Millisecond

// Chase moves n tasks again and again until stop is closed or ctx ends, and reads each task after each move through
// any node. A read that began after a move was answered must show the move, however long the read took. Each chase of
// a load needs a name of its own.
func (l *Load) Chase(ctx context.Context, name string, n int, stop <-chan struct{}) {
	var chasers sync.WaitGroup
	for i := range n {
		rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
		chasers.Go(func() { l.chase(ctx, rng, fmt.Sprintf("%schase-%s-%d", l.cfg.Prefix, name, i), stop) })
	}
	chasers.Wait()
}

func (l *Load) chase(ctx context.Context, rng *rand.Rand, id string, stop <-chan struct{}) {
	l.player.New(ctx, rng, id, load.Task{Delay: probeDelay})
	for wait.For(ctx, chasePause) {
		select {
		case <-stop:
			return
		default:
		}
		l.player.Perform(ctx, rng, l.player.Touch(id, probeDelay, nil))
		l.player.Perform(ctx, rng, l.player.Get(id))
	}
}

// raceSpread is the range over which the cancels of a race are spread around their times, so that they can change
// places.
const raceSpread = 80 * time.Millisecond

// Race schedules n tasks, due one after the other from begin until spread later, and cancels each about after its due
// time by the given duration. The order in the log decides whether the start of a task or its cancel came first. Each
// race of a load needs a name of its own.
func (l *Load) Race(ctx context.Context, name string, n int, begin time.Time, spread, after time.Duration) {
	ops := make([]load.Operation, n)
	due := make([]history.Instant, n)
	for i := range ops {
		at := begin.Add(spread * time.Duration(i) / time.Duration(n))
		due[i] = l.cfg.Recorder.Instant(at)
		ops[i] = l.player.Schedule(fmt.Sprintf("%srace-%s-%d", l.cfg.Prefix, name, i), load.Task{FireAt: at})
	}
	l.caller.batch(ctx, 0, burstTimeout, ops)
	var cancels sync.WaitGroup
	defer cancels.Wait()
	for i, op := range ops {
		rng := rand.New(rand.NewPCG(l.cfg.Seed, uint64(i)))
		at := due[i].Add(after + time.Duration(rng.Int64N(int64(raceSpread))) - raceSpread/2)
		cancels.Go(func() {
			if wait.For(ctx, at.Sub(l.cfg.Recorder.Now())) {
				l.player.Perform(ctx, rng, l.player.Cancel(op.What.ID))
			}
		})
	}
}
