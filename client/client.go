package client

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"
)

// Client talks to one cluster. It is safe for concurrent use.
type Client struct {
	cfg       Config
	ownHTTP   bool // cfg.HTTPClient was not given
	nodes     *nodes
	directory *directory
	keys      *keys
	wait      func(ctx context.Context, d time.Duration) error // replaced in tests

	waiters, chunks, bodies, readers sync.Pool // *waiter, *chunk, *body, *bufio.Reader, to be used again

	ctx    context.Context // of what is done for several callers, or for none
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	workers sync.WaitGroup // none is added once closed is set
}

// New makes a client. It opens no connection yet.
func New(cfg Config) (*Client, error) {
	ownHTTP := cfg.HTTPClient == nil
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	bases, err := parseAddrs(cfg.Addrs)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, ownHTTP: ownHTTP, nodes: new(nodes), keys: newKeys(), wait: wait}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, base := range bases {
		c.nodes.given = append(c.nodes.given, c.newEndpoint(base, true))
	}
	c.directory = newDirectory(c, !cfg.FixedAddrs && plain(bases))
	return c, nil
}

// plain tells whether the addresses are such as nodes give themselves. Behind any other, nodes' own are of no use, or
// would be less safe.
func plain(bases []string) bool {
	for _, base := range bases {
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" || u.Path != "" {
			return false
		}
	}
	return true
}

// errClosed: the client was closed before the call was answered.
var errClosed = errors.New("the client is closed")

// Close ends the client: calls that are gathered fail, those under way with ErrUnknown, and what runs in the background
// ends before it returns. Idle connections are closed, but for those of an HTTPClient that was given. A client that is
// not used any more may also be left as it is: it runs nothing.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.workers.Wait()
	if c.ownHTTP {
		c.cfg.HTTPClient.CloseIdleConnections()
	}
}

// begin counts something that runs in the background, until end; false: the client is closed.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.workers.Add(1)
	}
	return !c.closed
}

func (c *Client) end() { c.workers.Done() }

// wait sleeps for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
