// Package clocks measures how far the clocks of other nodes are from this node's.
//
//	Agrees   a shard's leader asks, before it acts and after its clock was set, whether a majority of the shard's voters
//	         keep its time: a clock that is far off must not fire early
//	Apart    a node whose clock is far from the median learns that it should not lead
//	Now      the time for calls to a node meanwhile: the median's
//
// Nodes ask each other for the time about once a second. The offset is estimated as in NTP: half the sum of the two
// one-way differences, wrong by at most half the round trip. Of the last samples the one with the shortest round trip
// counts, as long as later ones do not contradict it. A slow exchange is no sample if it only makes a clock look far
// off and may be wrong by that much: on a slow network, all clocks would look so.
//
// The package sets no clock. Keeping clocks right is the operating system's work.
//
// Other clocks are measured against this process's monotonic clock:
//
//   - So this node notices without a new question that its own wall clock was set.
//   - The offset of a node that has just died counts for a while longer. Otherwise, with one node of three dead and
//     another one's clock wrong, the third would know no majority.
package clocks

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config holds the nodes to ask, and the call to them.
type Config struct {
	Self       string // node id
	Clock      func() time.Time
	Directory  Directory
	Peers      Peers
	MaxOffset  time.Duration // 0: 250 ms
	Interval   time.Duration // 0: 1 s
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Directory has the nodes of the cluster.
type Directory interface {
	// Nodes returns the nodes to ask regularly: all of the cluster. This node may be among them.
	Nodes() []string
	// IsAlone reports whether this node knows that its cluster has no other node. It must not conclude so from silence:
	// this node may be cut off.
	IsAlone() bool
}

// Peers returns when another node received the question and when it answered, both by its own clock.
type Peers interface {
	AskTime(ctx context.Context, node string) (received, answered time.Time, err error)
}

// Clocks measures other nodes' clocks, and remembers the results.
type Clocks struct {
	cfg         Config
	own         own
	corrections corrections
	metrics     *metrics
	ctx         context.Context
	cancel      context.CancelFunc
	wg          sync.WaitGroup

	mu    sync.Mutex
	peers map[string]*history
}

// Start returns Clocks that measure the peers every Interval.
func Start(cfg Config) *Clocks {
	if cfg.MaxOffset == 0 {
		cfg.MaxOffset = 250 * time.Millisecond
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	flawBlinds(&cfg)
	ctx, cancel := context.WithCancel(context.Background())
	c := &Clocks{
		cfg: cfg, own: newOwn(cfg.Clock), metrics: newMetrics(cfg.Registerer), ctx: ctx, cancel: cancel,
		peers: make(map[string]*history), corrections: corrections{turn: make(chan struct{}, 1)},
	}
	c.wg.Go(c.run)
	return c
}

// MaxOffset returns the offset from the median up to which a clock counts as right.
func (c *Clocks) MaxOffset() time.Duration { return c.cfg.MaxOffset }

// Close stops the measurements.
func (c *Clocks) Close() {
	c.cancel()
	c.wg.Wait()
}

func (c *Clocks) run() {
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	for {
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Interval)
		c.round(ctx)
		cancel()
		select {
		case <-ticker.C:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *Clocks) forgetOthers(peers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, h := range c.peers {
		if !slices.Contains(peers, id) && !h.isFresh() {
			delete(c.peers, id)
			c.metrics.forget(id)
		}
	}
}

func (c *Clocks) measureAll(ctx context.Context, nodes []string) {
	var wg sync.WaitGroup
	for _, id := range nodes {
		if id == c.cfg.Self {
			continue
		}
		wg.Go(func() {
			if err := c.measure(ctx, id); err != nil {
				c.cfg.Logger.Debug("a node did not tell its time", "node", id, "err", err)
			}
		})
	}
	wg.Wait()
}

// measure asks one node. An exchange during which this node's clock was set is no sample.
func (c *Clocks) measure(ctx context.Context, node string) error {
	asked := c.own.read()
	received, answered, err := c.cfg.Peers.AskTime(ctx, node)
	if err != nil {
		return err
	}
	returned := c.own.read()
	if (returned.lead - asked.lead).Abs() > steady {
		return errSet
	}
	s := sampleOf(asked, received, answered, returned)
	if s.misleads(returned, c.cfg.MaxOffset) {
		return errSlow
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.peers[node]
	if h == nil {
		h = &history{}
		c.peers[node] = h
	}
	h.add(s)
	best := h.best()
	c.metrics.measured(node, best.ahead-returned.lead, best.trip/2)
	return nil
}

var (
	errSet  = errors.New("this node's clock was set meanwhile")
	errSlow = errors.New("the answer took so long that the clock only seems to be apart")
)

// Offset returns the lead of a node's clock over this node's, and the largest error of the lead. Both are 0 if known is
// false.
func (c *Clocks) Offset(node string) (offset, bound time.Duration, known bool) {
	if node == c.cfg.Self {
		return 0, 0, true
	}
	now := c.own.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.peers[node]
	if h == nil || !h.counts() {
		return 0, 0, false
	}
	s := h.best()
	return s.ahead - now.lead, s.trip / 2, true
}
