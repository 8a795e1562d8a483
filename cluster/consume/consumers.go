package consume

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Consumers holds the waiting consumers of this node, and serves them. Its methods are safe for concurrent use.
type Consumers struct {
	cfg     Config
	metrics *metrics
	ctx     context.Context // of all goroutines of Consumers
	cancel  context.CancelFunc
	holder  uint32          // identifies this run of the node
	late    context.Context // of releases: it ends some time after ctx
	giveUp  context.CancelFunc
	workers sync.WaitGroup

	mu        sync.Mutex // guards all fields below, and all pools, supplies, asks and upstreams
	closed    bool
	pools     map[key]*pool
	upstreams map[string]*upstream // by node
	followed  map[uint32]bool      // shards whose leaders are followed
	arrived   map[uint32]*arrivals // by shard
	asks      int                  // demands that have not ended
	drained   chan struct{}        // closed when asks is 0 after closed is set
	waiting   int                  // waiting consumers
	buffered  int                  // bytes of tasks in all pools' buffers
	number    uint64               // number of the last demand
}

// key identifies a pool: its consumers share namespace, queue and length of lease.
type key struct {
	namespace, queue string
	lease            time.Duration
}

// New returns Consumers without any waiting consumer.
func New(cfg Config) *Consumers {
	p := &Consumers{
		cfg: cfg.withDefaults(), pools: make(map[key]*pool), upstreams: make(map[string]*upstream),
		followed: make(map[uint32]bool), arrived: make(map[uint32]*arrivals), drained: make(chan struct{}),
		holder: rand.Uint32() | 1,
	}
	p.metrics = newMetrics(p, cfg.Registerer)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.late, p.giveUp = context.WithCancel(context.Background())
	return p
}

var (
	errClosed = fmt.Errorf("%w: this node is being closed", task.ErrNotProposed)
	errNoMap  = fmt.Errorf("%w: this node does not know the shards yet", task.ErrNotProposed)
)

// Lease waits until a due task arrives for the consumer. It returns the task with the others that have arrived by then,
// up to req.Max. It returns none when ctx ends. With req.Look it also returns none when every shard's leader has
// answered that it has no task. The request must be valid and name its namespace and queue.
func (p *Consumers) Lease(ctx context.Context, req task.LeaseRequest) ([]*fsmpb.Task, error) {
	w := &waiter{max: req.Max, looks: req.Look, served: make(chan struct{})}
	if err := p.enter(key{req.Namespace, req.Queue, req.Lease}, w); err != nil {
		return nil, err
	}
	select {
	case <-w.served:
	case <-ctx.Done():
		p.leave(w)
	}
	return w.tasks, w.err
}

func (p *Consumers) enter(k key, w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return errClosed
	case p.waiting >= p.cfg.MaxWaiting:
		return fmt.Errorf("%w: %d consumers", task.ErrOverloaded, p.waiting)
	case !p.follow():
		return errNoMap
	}
	p.waiting++
	p.pool(k).enter(w)
	return nil
}

// leave ends a wait. A consumer that was served before keeps its tasks.
func (p *Consumers) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.waiting != nil {
		w.pool.leave(w)
	}
}

// pool returns the pool of a key, and makes it if there is none.
func (p *Consumers) pool(k key) *pool {
	q := p.pools[k]
	if q == nil {
		q = newPool(p, k)
		p.pools[k] = q
	}
	return q
}

// follow starts to follow the leaders of all shards. It returns false while no shard is known.
func (p *Consumers) follow() bool {
	shards := p.cfg.Control.State().Shards
	for _, s := range shards {
		if !p.followed[s.Id] {
			p.followed[s.Id] = true
			p.workers.Go(func() { p.followLeader(s.Id) })
		}
	}
	return len(shards) > 0
}

func (p *Consumers) followLeader(shard uint32) {
	for {
		leader, changed := p.cfg.Leaders.Watch(shard)
		p.leaderIs(shard, leader)
		select {
		case <-changed:
		case <-p.ctx.Done():
			return
		}
	}
}

func (p *Consumers) leaderIs(shard uint32, leader string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.pools {
		q.leaderIs(shard, leader)
	}
}

// release gives back tasks without a consumer, in the background.
func (p *Consumers) release(tasks []*fsmpb.Task) {
	if len(tasks) > 0 {
		p.workers.Go(func() { p.giveBack(tasks) })
	}
}

// giveBack releases tasks. The leases of tasks that it cannot release end by themselves.
func (p *Consumers) giveBack(tasks []*fsmpb.Task) {
	if len(tasks) == 0 {
		return
	}
	p.metrics.released.Add(float64(len(tasks)))
	ctx, cancel := context.WithTimeout(p.late, releaseWithin)
	defer cancel()
	for _, r := range p.cfg.Router.Do(ctx, releases(tasks)) {
		if r.Err != nil {
			p.cfg.Logger.Debug("tasks stay leased that no consumer took", "tasks", len(tasks), "err", r.Err)
			return
		}
	}
}

// releases makes the commands that release tasks, in reverse order, since each task goes back to the head of its lane.
func releases(tasks []*fsmpb.Task) []*fsmpb.Command {
	cmds := make([]*fsmpb.Command, 0, len(tasks))
	for _, t := range slices.Backward(tasks) {
		cmds = append(cmds, &fsmpb.Command{Namespace: t.Namespace, Id: t.Id, Op: &fsmpb.Command_Settle{
			Settle: &fsmpb.Settle{
				Fence: t.Fence, Occurrence: t.Occurrence, Verdict: fsmpb.Verdict_VERDICT_RELEASED, Consumer: true,
			},
		}})
	}
	return cmds
}

// Close sends the consumers away, ends all demands, and releases the tasks that arrive in the meantime. It does not end
// the streams on which other nodes' demands are served.
func (p *Consumers) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	for _, q := range p.pools {
		q.close()
	}
	p.asksEnded(0)
	p.mu.Unlock()
	late := time.NewTimer(drainWithin)
	defer late.Stop()
	select {
	case <-p.drained:
	case <-late.C:
	}
	p.cancel()
	giveUp := time.AfterFunc(drainWithin, p.giveUp)
	defer giveUp.Stop()
	p.workers.Wait()
	p.metrics.unregister()
}

// asksEnded counts n demands that have ended.
func (p *Consumers) asksEnded(n int) {
	if p.asks -= n; p.closed && p.asks == 0 {
		p.drainOnce()
	}
}

func (p *Consumers) drainOnce() {
	select {
	case <-p.drained:
	default:
		close(p.drained)
	}
}
