package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// Client talks to one cluster. It is safe for concurrent use.
type Client struct{ conn *conn }

// conn carries the calls of a client to the nodes: each as a request of its own, or as a line among others.
type conn struct {
	cfg        Config
	ownHTTP    bool // Config.HTTPClient was nil
	credential *credential
	root       string // of the paths of tasks and queues
	nodes      *nodes
	directory  *directory
	keys       *keys
	wait       func(ctx context.Context, d time.Duration) error // replaced in tests

	waiters, chunks, bodies, readers sync.Pool // *waiter, *chunk, *body, *bufio.Reader, for reuse

	ctx    context.Context // of work for several callers, or for none
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	workers sync.WaitGroup // none is added once closed is set
}

// New makes a client. It opens no connection yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	bases, err := parseAddrs(cfg.Addrs)
	if err != nil {
		return nil, err
	}
	credential, err := newCredential(&cfg)
	if err != nil {
		return nil, err
	}
	c := &conn{
		cfg: cfg.withDefaults(), ownHTTP: cfg.HTTPClient == nil, credential: credential, root: rootOf(cfg.Namespace),
		nodes: new(nodes), keys: newKeys(), wait: wait,
	}
	if credential.present() {
		c.cfg.HTTPClient = stayHome(c.cfg.HTTPClient)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	scheme := "" // no addresses but the given ones
	for _, base := range bases {
		c.nodes.given = append(c.nodes.given, c.newEndpoint(base, true))
	}
	if !cfg.FixedAddrs {
		scheme = commonScheme(bases)
	}
	c.directory = newDirectory(c, scheme)
	return &Client{c}, nil
}

// commonScheme returns the scheme of the addresses, http or https. It returns "" if they differ, or if one has a path:
// behind such addresses the nodes' own are useless, or less safe.
func commonScheme(bases []string) string {
	common := ""
	for i, base := range bases {
		scheme, rest, _ := strings.Cut(base, "://")
		if strings.Contains(rest, "/") || i > 0 && scheme != common {
			return ""
		}
		common = scheme
	}
	return common
}

// rootOf returns the beginning of the paths of a namespace's tasks and queues.
func rootOf(namespace string) string {
	if namespace == "" {
		return "/v1"
	}
	return "/v1/namespaces/" + namespace
}

// errClosed is the error of a call that was not answered before Close.
var errClosed = errors.New("the client is closed")

// Close ends the client. Gathered calls that were not sent fail, calls in progress fail with ErrUnknown, and background
// work ends before Close returns. Close closes idle connections, except those of a given Config.HTTPClient. An unused
// client runs nothing and may be dropped without Close.
func (c *Client) Close() { c.conn.close() }

func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.workers.Wait()
	if c.ownHTTP {
		c.cfg.HTTPClient.CloseIdleConnections()
	}
}

// begin counts one more background goroutine, until end. It returns false if the client is closed.
func (c *conn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.workers.Add(1)
	}
	return !c.closed
}

func (c *conn) end() { c.workers.Done() }

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
