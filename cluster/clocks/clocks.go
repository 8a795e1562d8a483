// Package clocks knows how far the clocks of other nodes are from this one's.
//
// Nodes ask each other for the time about once a second, and the offset is estimated as NTP does: half the sum of the
// two one-way differences, wrong by at most half the round trip. Of the last samples the one with the shortest round
// trip counts, for as long as later ones do not contradict it.
//
// It corrects nothing. A shard's leader asks it once, before it acts, whether a majority of the shard's voters keep the
// same time (Agrees), so that a clock that is far off does not fire early; and a node that finds itself apart from the
// median knows that it should not lead (Apart). Keeping clocks right is the operating system's work.
package clocks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says whom to ask, and how.
type Config struct {
	Self  string // node id
	Clock func() time.Time
	Peers func() []string // nodes to ask regularly; self may be among them
	// Ask returns when the other node received the question and when it answered, both on its own clock.
	Ask        func(ctx context.Context, node string) (received, answered time.Time, err error)
	MaxOffset  time.Duration // 0: 250 ms
	Interval   time.Duration // 0: 1 s
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Clocks asks, and remembers.
type Clocks struct {
	cfg     Config
	metrics *metrics
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	peers map[string]*history
}

// Start begins to ask.
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
	ctx, cancel := context.WithCancel(context.Background())
	c := &Clocks{cfg: cfg, metrics: newMetrics(cfg.Registerer), cancel: cancel, peers: make(map[string]*history)}
	c.wg.Go(func() { c.run(ctx) })
	return c
}

// Close ends the asking.
func (c *Clocks) Close() {
	c.cancel()
	c.wg.Wait()
}

func (c *Clocks) run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Interval)
	defer ticker.Stop()
	for {
		peers := c.cfg.Peers()
		c.forgetOthers(peers)
		c.measureAll(ctx, peers)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Clocks) forgetOthers(peers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.peers {
		if !slices.Contains(peers, id) {
			delete(c.peers, id)
			c.metrics.forget(id)
		}
	}
}

func (c *Clocks) measureAll(ctx context.Context, nodes []string) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Interval)
	defer cancel()
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

func (c *Clocks) measure(ctx context.Context, node string) error {
	asked := c.cfg.Clock()
	received, answered, err := c.cfg.Ask(ctx, node)
	if err != nil {
		return err
	}
	s := sampleOf(asked, received, answered, c.cfg.Clock())
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.peers[node]
	if h == nil {
		h = &history{}
		c.peers[node] = h
	}
	h.add(s)
	c.metrics.measured(node, h.best())
	return nil
}

// Offset is how far the node's clock is ahead of this one, and by how much that may be wrong; false: not known.
func (c *Clocks) Offset(node string) (offset, bound time.Duration, known bool) {
	if node == c.cfg.Self {
		return 0, 0, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.peers[node]
	if h == nil {
		return 0, 0, false
	}
	s := h.best()
	return s.offset, s.trip / 2, true
}

// ErrApart means that too few clocks agree with this one.
var ErrApart = errors.New("this node's clock does not agree with a majority")

// Agrees measures the voters' clocks anew and returns nil as soon as those of a majority, this node's included if it is
// one of them, are within the bound: whoever does not answer delays nothing. It returns when ctx ends at the latest.
func (c *Clocks) Agrees(ctx context.Context, voters []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan bool, len(voters)) // whether that clock is near
	for _, v := range voters {
		go func() { answers <- c.isNear(ctx, v) }()
	}
	near := 0
	for range voters {
		if <-answers {
			near++
		}
		if near > len(voters)/2 {
			return nil
		}
	}
	return fmt.Errorf("%w: of %d voters %d are known to be within %v", ErrApart, len(voters), near, c.cfg.MaxOffset)
}

func (c *Clocks) isNear(ctx context.Context, node string) bool {
	if node == c.cfg.Self {
		return true
	}
	if err := c.measure(ctx, node); err != nil {
		c.cfg.Logger.Debug("a voter did not tell its time", "node", node, "err", err)
		return false
	}
	offset, _, known := c.Offset(node)
	return known && offset.Abs() <= c.cfg.MaxOffset
}

// Apart tells whether this clock is further than the bound from the median of all that are known, and how far.
func (c *Clocks) Apart() (time.Duration, bool) {
	offsets := []time.Duration{0} // this node's own
	c.mu.Lock()
	for _, h := range c.peers {
		offsets = append(offsets, h.best().offset)
	}
	c.mu.Unlock()
	slices.Sort(offsets)
	low, high := offsets[(len(offsets)-1)/2], offsets[len(offsets)/2]
	median := low + (high-low)/2
	return median, median.Abs() > c.cfg.MaxOffset && len(offsets) > 2
}
