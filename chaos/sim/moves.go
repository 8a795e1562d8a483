package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
)

// aim is one new target of a shard.
type aim struct {
	after time.Duration // after the beginning of the course
	shard uint32
	seed  uint64 // of the choice of nodes
}

// drawAims draws the targets of a run. Half of them come close to a strike or a mending. A target may come while the
// shard is still on its way to the one before.
func drawAims(cfg Config, rng *rand.Rand, course *course) []aim {
	var aims []aim
	for id := range uint32(cfg.Shards) {
		for at := between(rng, aimsEvery); at < cfg.Span; at += between(rng, aimsEvery) {
			a := aim{after: at, shard: id + 1, seed: rng.Uint64()}
			if len(course.moments) > 0 && rng.IntN(2) == 0 {
				moment := course.moments[rng.IntN(len(course.moments))]
				a.after = moment + time.Duration(rng.Int64N(int64(4*time.Second))) - 2*time.Second
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
func (w *World) move(course *course) (arrive func()) {
	if !w.cfg.Moves {
		return func() {}
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var aiming, driving sync.WaitGroup
	aiming.Go(func() { w.aim(course) })
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
func (w *World) aim(course *course) {
	for _, a := range drawAims(w.cfg, w.rng("aims", 0), course) {
		if !w.sleep(time.Until(course.begin.Add(a.after))) {
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

// reign is one leadership of the control group, by one process. Its entries take effect until the next reign begins.
// The process may notice that a while later, and goes on with the state that it last saw. It is a control.Decisions and
// a control.Groups.
type reign struct {
	world   *World
	process *process

	mu   sync.Mutex
	rng  *rand.Rand
	last *clusterpb.ControlState // the last state that a deposed leader has seen; nil: it leads
}

// reconcile has one process after the other move the shards, until ctx ends. A reign ends with its process or after a
// drawn time. Then there may be no leader for a while.
func (w *World) reconcile(ctx context.Context) {
	var reigns sync.WaitGroup
	defer reigns.Wait()
	rng := w.rng("reigns", 0)
	for ctx.Err() == nil {
		p := w.nodes[rng.IntN(len(w.nodes))].running()
		if p == nil {
			wait.For(ctx, w.cfg.pace.heartbeat/4)
			continue
		}
		r := &reign{world: w, process: p, rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
		notices := max(0, time.Duration(rng.Int64N(int64(oldLeader)))-oldLeader/2)
		reigning, over := context.WithTimeout(ctx, between(rng, reignLasts))
		reigns.Go(func() { r.run(ctx, reigning, notices) })
		select {
		case <-reigning.Done():
		case <-p.host.Life().Done():
		}
		r.depose()
		over()
		wait.For(ctx, max(0, time.Duration(rng.Int64N(int64(2*time.Second)))-time.Second))
	}
}

// oldLeader is twice the longest time for which a deposed leader goes on.
const oldLeader = 10 * time.Second

var reignLasts = span(500*time.Millisecond, 2*time.Minute)

// run drives the moves until some time after reigning has ended, or until the process or ctx ends.
func (r *reign) run(ctx, reigning context.Context, notices time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.process.host.Life(), cancel)()
	defer context.AfterFunc(reigning, func() {
		wait.For(ctx, notices)
		cancel()
	})()
	control.NewMover(r, r, r.process.logger()).Run(ctx)
}

// depose ends the reign. The process sees no newer state, and its entries are refused.
func (r *reign) depose() {
	state := r.world.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = state
}

// Watch returns the state that the leader sees, and a channel that is closed at the next change.
func (r *reign) Watch() (*clusterpb.ControlState, <-chan struct{}) {
	if last := r.deposed(); last != nil {
		return last, nil
	}
	return r.world.decisions.Watch()
}

// Propose makes an entry take effect if this is the present reign. The entry passes through another node: a leader that
// reaches no other commits nothing.
func (r *reign) Propose(ctx context.Context, entry *clusterpb.ControlEntry) error {
	p := r.process
	if !p.host.Gate() {
		return task.ErrNotProposed
	}
	_, err := askOther(ctx, p, r.other(), func(context.Context, *process) (struct{}, error) {
		return struct{}{}, r.decide(entry)
	})
	return err
}

func (r *reign) decide(entry *clusterpb.ControlEntry) error {
	err := r.world.decide(entry, r.leads)
	if err == nil && entry.GetRetarget() != nil {
		r.world.count(func(f *Figures) { f.Moves++ })
	}
	return err
}

func (r *reign) other() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process.other(r.rng)
}

// deposed returns the last state that a deposed leader has seen, or nil if r leads.
func (r *reign) deposed() *clusterpb.ControlState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *reign) leads() error {
	if r.deposed() != nil {
		return &task.NotLeaderError{}
	}
	return nil
}

// Members makes a change of a shard's membership at its leader. Some changes are repeated later, as if the network or a
// deposed leader had held them back. The answer to some is lost.
func (r *reign) Members(ctx context.Context, shard uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error) {
	p := r.process
	if !p.host.Gate() {
		return nil, task.ErrNotProposed
	}
	if ask.Change == nil {
		return p.router.Members(ctx, shard, ask)
	}
	r.world.members.noteCall(shard, proto.CloneOf(ask))
	again, lost := r.fate()
	if again > 0 {
		r.world.wg.Go(func() { r.repeat(again, shard, proto.CloneOf(ask)) })
	}
	m, err := p.router.Members(ctx, shard, ask)
	if err == nil && lost {
		return nil, task.ErrUnknown
	}
	return m, err
}

// callLasts is how long a call can be under way. In production every call has a deadline.
const callLasts = 5 * time.Second

// fate draws when a change is repeated, 0 for never, and whether its answer is lost.
func (r *reign) fate() (again time.Duration, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rng.IntN(3) == 0 {
		again = 1 + time.Duration(r.rng.Int64N(int64(callLasts)))
	}
	return again, r.rng.IntN(8) == 0
}

func (r *reign) repeat(after time.Duration, shard uint32, ask *clusterpb.MembersCall) {
	if !r.process.host.Sleep(after) || !r.process.host.Gate() {
		return
	}
	ctx, cancel := context.WithTimeout(r.process.host.Life(), callLasts)
	defer cancel()
	_, _ = r.process.router.Members(ctx, shard, ask) // a repeated call has no reader
}

// Applied asks a node for the last entry that its replica of a shard has applied.
func (r *reign) Applied(ctx context.Context, node string, shard uint32, joined uint64) (uint64, error) {
	return askOther(ctx, r.process, node, func(_ context.Context, other *process) (uint64, error) {
		s, err := other.replicas.Find(shard)
		switch {
		case err != nil:
			return 0, err
		case !other.replicas.HasJoined(shard, joined):
			return 0, &task.NotLeaderError{Shard: shard}
		}
		return s.Status().Applied, nil
	})
}

// Fit reports whether a process runs on a node.
func (r *reign) Fit(_ uint32, node string) bool { return r.process.Alive(node) }

// askOther is askThere, except that a process asks itself directly.
func askOther[T any](
	ctx context.Context, p *process, node string, ask func(context.Context, *process) (T, error),
) (T, error) {
	if node == p.node.name {
		return ask(ctx, p)
	}
	return askThere(ctx, p, node, ask)
}

// other returns a random node that is not p's, or p's if there is no other.
func (p *process) other(rng *rand.Rand) string {
	nodes := p.world.nodes
	if len(nodes) == 1 {
		return p.node.name
	}
	n := nodes[rng.IntN(len(nodes)-1)]
	if n == p.node {
		n = nodes[len(nodes)-1]
	}
	return n.name
}

// reaches reports whether a node answers.
func (p *process) reaches(node string) bool {
	ctx, cancel := context.WithTimeout(p.host.Life(), p.world.cfg.pace.rpcTimeout())
	defer cancel()
	_, err := askOther(ctx, p, node, func(context.Context, *process) (bool, error) { return true, nil })
	return err == nil
}
