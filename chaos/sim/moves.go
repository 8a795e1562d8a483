package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// aim is one new target of a shard.
type aim struct {
	after time.Duration // after the beginning of the course
	shard uint32
	seed  uint64 // of the choice of nodes
}

// drawAims draws the targets of a run. Half of them come close to a strike or a mending. A target may come while the
// shard is still on its way to the one before.
func drawAims(cfg Config, rng *rand.Rand, of *course) []aim {
	var aims []aim
	for id := range uint32(cfg.Shards) {
		for at := between(rng, aimsEvery); at < cfg.Span; at += between(rng, aimsEvery) {
			a := aim{after: at, shard: id + 1, seed: rng.Uint64()}
			if len(of.moments) > 0 && rng.IntN(2) == 0 {
				a.after = of.moments[rng.IntN(len(of.moments))] + time.Duration(rng.Int64N(int64(4*time.Second))) - 2*time.Second
			}
			aims = append(aims, a)
		}
	}
	slices.SortFunc(aims, func(a, b aim) int { return int(a.after - b.after) })
	return aims
}

var aimsEvery = span(time.Second, 2*time.Minute)

// move begins to move the shards of a world that has moves. arrive waits until all shards are where they should be, and
// ends the moves.
func (w *World) move(of *course) (arrive func()) {
	if !w.cfg.Moves {
		return func() {}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var aiming, driving sync.WaitGroup
	aiming.Go(func() { w.aim(of) })
	driving.Go(func() { w.reconcile(ctx) })
	w.wg.Go(w.members.watch)
	return func() {
		aiming.Wait()
		w.arrive()
		cancel()
		driving.Wait()
	}
}

// aim gives the shards their targets, each at its time.
func (w *World) aim(of *course) {
	for _, a := range drawAims(w.cfg, w.rng("aims", 0), of) {
		if !w.sleep(time.Until(of.begin.Add(a.after))) {
			return
		}
		w.retarget(a)
	}
}

// retarget gives a shard a target: one node in place of another, or other nodes altogether, also more or fewer than
// before.
func (w *World) retarget(a aim) {
	rng := rand.New(rand.NewPCG(a.seed, 2))
	before := w.record(a.shard)
	target := slices.Clone(before.Replicas)
	all := names(w.nodes)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if out := rng.IntN(len(target)); rng.IntN(2) == 0 && !slices.Contains(target, all[0]) {
		target[out] = all[0]
	} else {
		target = all[:min(len(all), sizes[rng.IntN(len(sizes))])]
	}
	preferred := target[0]
	slices.Sort(target)
	w.members.aim(before, target)
	err := w.decide(&clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Retarget{Retarget: &clusterpb.Retarget{
		Shards: []*clusterpb.Shard{{Id: a.shard, Target: target, Preferred: preferred}},
	}}}, always)
	if err != nil {
		w.problem("shard %d cannot move to %v: %v", a.shard, target, err)
	}
}

// sizes are the numbers of replicas that targets have.
var sizes = []int{1, 2, 3, 3, 3, 3, 3, 3, 5, 5}

// arrive waits until every shard is where it should be and no other node has files of it. It is a problem if that takes
// long: nothing is broken any more.
func (w *World) arrive() {
	end := time.Now().Add(4 * w.cfg.pace.recovery())
	for time.Now().Before(end) {
		if w.haveArrived() {
			return
		}
		w.sleep(time.Second)
	}
	for _, s := range w.now().Shards {
		w.problem("a move does not end: %v", s)
	}
}

func (w *World) haveArrived() bool {
	for _, s := range w.now().Shards {
		if len(s.Target) > 0 {
			return false
		}
		for _, n := range w.nodes {
			if slices.Contains(n.files.held(), s.Id) != slices.Contains(s.Replicas, n.name) {
				return false
			}
		}
	}
	return true
}
