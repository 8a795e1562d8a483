package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// Node is a node that takes calls.
type Node struct {
	Name string
	URL  string // of its HTTP interface
	// KeyFile is the file with the API key of calls, which may change; empty: they need none.
	KeyFile string
}

// Config describes a load. Nodes, Target and Recorder are required.
type Config struct {
	Nodes    []Node
	Spare    func() []string // names of the nodes that are not in the cluster now; nil: all are
	Target   string          // the receiver's URL
	Recorder *history.Recorder

	Seed      uint64
	Namespace string        // of all calls; default the default one
	Prefix    string        // of all ids; default "t-"
	Tasks     int           // scripts to play; 0: until stop is closed or the context ends
	PerSecond int           // scripts begun a second; default 200
	Hot       int           // ids that several workers use at once; default 4, negative: none
	MaxDelay  time.Duration // longest delay of a task; default 3 s

	// Plain makes the load even: each script schedules one task, which the receiver takes at once, and the batches of
	// the bulk are small. Many consumers share its tasks, so a refused call of one of them delays no task. Only such a
	// load tells the lateness that a cluster adds. Others have bursts, and receivers and consumers that hold tasks back.
	Plain bool

	Pulled    int           // percent of the scripts' tasks that consumers pull; default 40, negative: none
	Consumers int           // consumers of the pulled tasks of scripts; default 6
	Lease     time.Duration // longest lease of a task; default 2.8 s

	// The bulk is many plain tasks by batch beside the scripts, each with an id of its own. See Load.Bulk.
	BulkPerSecond int // tasks a second; default 1000
	// BulkKept is how long finished tasks of the bulk can be read: to the end of a run at least. 0 leaves that to the
	// nodes. A node that starts reads mostly finished tasks if they are kept for longer.
	BulkKept      time.Duration
	BulkLines     int // average tasks of a batch; default 300
	BulkConsumers int // consumers of pulled bulk tasks. Default 3, of a plain load 24

	// Schedules is the number of schedules that Repeat makes. Default 5, of a plain load none; negative: none.
	Schedules int

	// Groups is the number of groups that keep their order, for which Order makes a queue. Default 0: no script uses them.
	Groups int

	Kept time.Duration // how long finished tasks of scripts can be read, for Keep

	// ForgerKey is a file with a key for a consumer of ForgerQueue alone, for Forge; empty: calls need none.
	ForgerKey string

	// Dial opens the connections to nodes; nil: those of the machine's network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	RetryFor time.Duration // how long an operation is repeated. Default 10 s
}

func (c Config) withDefaults() (Config, error) {
	if len(c.Nodes) == 0 || c.Target == "" || c.Recorder == nil {
		return c, errors.New("workload: Nodes, Target and Recorder must be given")
	}
	if c.Plain {
		c.Hot, c.Pulled, c.Groups = -1, -1, 0
		c.Schedules = cmp.Or(c.Schedules, -1)
		c.BulkLines = cmp.Or(c.BulkLines, 20)
		c.BulkConsumers = cmp.Or(c.BulkConsumers, 24)
	}
	c.Prefix = cmp.Or(c.Prefix, "t-")
	c.PerSecond = cmp.Or(c.PerSecond, 200)
	c.Hot = cmp.Or(c.Hot, 4)
	c.Pulled = cmp.Or(c.Pulled, 40)
	c.Consumers = cmp.Or(c.Consumers, 6)
	c.Lease = cmp.Or(c.Lease, 2800*time.Millisecond)
	c.BulkPerSecond = cmp.Or(c.BulkPerSecond, 1000)
	c.BulkLines = cmp.Or(c.BulkLines, 300)
	c.BulkConsumers = cmp.Or(c.BulkConsumers, 3)
	c.Schedules = cmp.Or(c.Schedules, 5)
	c.MaxDelay = cmp.Or(c.MaxDelay, 3*time.Second)
	c.RetryFor = cmp.Or(c.RetryFor, 10*time.Second)
	return c, nil
}

// Load plays scripts and the other parts of a load. Its methods are safe for concurrent use.
type Load struct {
	player *load.Player
	cfg    Config
	caller *caller
	forger *caller               // with the key of the forger
	seen   atomic.Pointer[sight] // of the last lease; nil: there was none

	repeated *load.Schedules
	steady   *load.Schedules // nil: Steady was not called
}

// New makes a load. It makes no call yet. An error means that cfg lacks a required field, or that a client for a node
// cannot be made.
func New(cfg Config) (*Load, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := newCaller(cfg)
	if err != nil {
		return nil, err
	}
	l := &Load{cfg: cfg, caller: c}
	cfg.Nodes = slices.Clone(cfg.Nodes)
	for i := range cfg.Nodes {
		cfg.Nodes[i].KeyFile = cfg.ForgerKey
	}
	if l.forger, err = newCaller(cfg); err != nil {
		return nil, err
	}
	l.player, l.repeated = load.New(l.plan()), load.NewSchedules(l.scheduleConfig())
	return l, nil
}

// plan returns the config of the player. Everything in it happens within seconds.
func (l *Load) plan() load.Config {
	cfg := load.Config{
		Driver: driver{l}, Recorder: l.cfg.Recorder, Seed: l.cfg.Seed, Prefix: l.cfg.Prefix, Weights: weights,
		Hot: max(l.cfg.Hot, 0), HotEvery: 12, RetryFor: l.cfg.RetryFor, MaxPause: maxPause,
		Draw: load.Draw{
			After: l.after, Queue: l.queue, Hold: maxHold, Fail: 2, Attempts: 2, HotDelay: hotMaxDelay,
			LeaseFor: l.leaseFor, Overdue: overdue, NackFor: maxNackDelay,
		},
	}
	if l.cfg.Pulled > 0 {
		cfg.HotQueue = l.cfg.scriptQueue()
	}
	if l.cfg.Groups > 0 {
		cfg.Ordered, cfg.Groups, cfg.Weights = l.cfg.orderedQueue(), l.cfg.Groups, maps.Clone(weights)
		cfg.Weights["grouped"] = 6
	}
	if l.cfg.Plain {
		cfg.Weights, cfg.Draw.Hold = load.Only("plain"), 0
	}
	return cfg
}

// weights are the weights that differ from the usual ones. The scripts "queued" and "pulled" need queues that a load of
// real processes does not have: queue draws the queue of each task.
var weights = map[string]int{
	"plain": 40, "dead": 2, "storm": 0, "replaced at due": 0, "expiring": 0, "queued": 0, "pulled": 0,
}

const (
	workers     = 64              // scripts at once
	callTimeout = 2 * time.Second // longest timeout of a request; some get less

	maxHold      = 500 * time.Millisecond
	hotMaxDelay  = 400 * time.Millisecond
	maxNackDelay = time.Second
	overdue      = 900 * time.Millisecond
)

// Run plays scripts until all are played or stop is closed, and returns when the scripts that were begun are over. The
// end of ctx cuts them short.
func (l *Load) Run(ctx context.Context, stop <-chan struct{}) {
	pace(ctx, stop, float64(l.cfg.PerSecond), l.cfg.Tasks, workers, func(i int) { l.player.Play(ctx, i) })
}

// pace calls do with the numbers below n (0: any number) at a rate a second, until stop is closed or ctx ends, and
// returns when all calls have returned. It waits while `most` calls are under way, so that a cluster that stands still
// is not buried in calls.
func pace(ctx context.Context, stop <-chan struct{}, perSecond float64, n, most int, do func(i int)) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer tick.Stop()
	room := make(chan struct{}, most)
	var busy sync.WaitGroup
	defer busy.Wait()
	for i := 0; n == 0 || i < n; i++ {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case room <- struct{}{}:
		}
		busy.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
}

// after draws how long from now a task is due: mostly anywhere in the whole range, in one case of ten less than 30 ms.
func (l *Load) after(rng *rand.Rand) time.Duration {
	if rng.IntN(10) == 0 {
		return time.Duration(rng.IntN(30)) * time.Millisecond
	}
	return time.Duration(rng.Int64N(int64(l.cfg.MaxDelay))).Round(time.Millisecond)
}

// due draws the instant at which a task is due.
func (l *Load) due(rng *rand.Rand) time.Time { return l.cfg.Recorder.Now().Add(l.after(rng)).Time() }

// queue draws the queue of a task: the consumers' queue for some tasks, none for the others.
func (l *Load) queue(rng *rand.Rand) string {
	if rng.IntN(100) < l.cfg.Pulled {
		return l.cfg.scriptQueue()
	}
	return ""
}

// The queues of a load.

func (c Config) scriptQueue() string  { return c.Prefix + "pull" }
func (c Config) orderedQueue() string { return c.Prefix + "ordered" }
func (c Config) pushQueue() string    { return c.Prefix + "bulk-push" }
func (c Config) pullQueue() string    { return c.Prefix + "bulk-pull" }

// Order makes the queue of Config.Groups, if there are any. It pushes the tasks of a group in order, one at a time.
func (l *Load) Order(ctx context.Context) error {
	if l.cfg.Groups == 0 {
		return nil
	}
	return l.putQueue(ctx, client.Queue{
		Name: l.cfg.orderedQueue(), Target: &client.Target{URL: l.cfg.Target}, FIFO: true, KeepDone: l.cfg.Kept,
	})
}

// Keep makes the queues of the scripts keep finished tasks for Config.Kept.
func (l *Load) Keep(ctx context.Context) error {
	return errors.Join(
		l.putQueue(ctx, client.Queue{Name: defaultQueue, KeepDone: l.cfg.Kept}),
		l.putQueue(ctx, client.Queue{Name: l.cfg.scriptQueue(), KeepDone: l.cfg.Kept}),
	)
}

// defaultQueue is the queue of tasks that name none.
const defaultQueue = "default"

// putBulkQueues creates the two queues of the bulk. One pushes tasks to the receiver, many in a request. Consumers
// pull the tasks of the other.
func (l *Load) putBulkQueues(ctx context.Context) error {
	return errors.Join(
		l.putQueue(ctx, client.Queue{
			Name: l.cfg.pushQueue(), Target: &client.Target{URL: l.cfg.Target}, BatchMax: bulkRequest,
			KeepDone: l.cfg.BulkKept, Retry: &client.Retry{MinBackoff: minBackoff, MaxBackoff: maxBackoff},
		}),
		l.putQueue(ctx, client.Queue{Name: l.cfg.pullQueue(), KeepDone: l.cfg.BulkKept}),
	)
}

func (l *Load) putQueue(ctx context.Context, want client.Queue) error {
	end := l.cfg.Recorder.Now().Add(l.cfg.RetryFor)
	for node := 0; ; node++ {
		_, err := l.caller.clients[node%len(l.caller.clients)].PutQueue(ctx, want)
		if err == nil {
			return nil
		}
		if l.cfg.Recorder.Now() > end || !wait.For(ctx, maxPause) {
			return fmt.Errorf("making the queue %s: %w", want.Name, err)
		}
	}
}

// Consume leases and settles the pulled tasks, through random nodes, until the context ends. Without Consume these
// tasks stay in their queues.
func (l *Load) Consume(ctx context.Context) {
	var all sync.WaitGroup
	for n := range l.cfg.Consumers {
		all.Go(func() { l.player.Consume(ctx, rand.New(rand.NewPCG(l.cfg.Seed, consumers+uint64(n)))) })
	}
	for n := range l.cfg.BulkConsumers {
		all.Go(func() { l.consumeBulk(ctx, uint64(n)) })
	}
	all.Wait()
}

// The streams of random numbers of one seed, each with a range of its own. Scripts use the range from 0 on.
const (
	consumers uint64 = (iota + 1) << 40
	bulkConsumers
	bulkBatches
	bulkSizes
	forgers
)

const (
	impatience = 20 // one lease call in 20 is cut off, perhaps while its answer is on the way
	leaseWait  = time.Second
)

func (l *Load) demand(rng *rand.Rand) client.Demand {
	return client.Demand{Max: 1 + rng.IntN(10), Wait: leaseWait, Lease: l.leaseFor(rng)}
}

// leaseFor draws the length of a lease, from a quarter of Config.Lease to all of it.
func (l *Load) leaseFor(rng *rand.Rand) time.Duration {
	quarter := l.cfg.Lease / 4
	return quarter + time.Duration(rng.Int64N(int64(3*quarter)))
}

// lease makes one lease call to a random node. Tasks in an answer that is lost can be leased again when their leases
// have ended.
func (l *Load) lease(ctx context.Context, rng *rand.Rand, queue string, want client.Demand) (_ []load.Lease, ok bool) {
	patience := want.Wait + callTimeout
	if rng.IntN(impatience) == 0 {
		patience = time.Duration(rng.Int64N(int64(want.Wait)))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	calledAt := l.cfg.Recorder.Now()
	given, err := l.caller.clients[l.anyNode(rng)].Lease(ctx, queue, want)
	if len(given) > 0 {
		l.seen.Store(&sight{queue, given[0].Receipt})
	}
	return l.leases(calledAt, want.Lease, given), err == nil
}
