// Package nodetest runs clusters of whole nodes in one test process: their API, their state and their deliveries. The
// nodes, their callers and their receivers speak over a network in memory, and the test runs in a bubble of
// testing/synctest. So the clock moves only when every goroutine waits, and a busy machine changes nothing but the time
// that the test takes. A Cluster belongs to the bubble in which it was started.
package nodetest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/internal/memnet"
	"github.com/belfryhq/belfry/node"
)

const (
	// stragglers is how long a goroutine of memberlist or Raft may outlive its closed node, waiting for an answer. A
	// bubble must not end before its goroutines.
	stragglers = time.Minute
	shards     = 4 // unless the test says otherwise; more than most clusters here have nodes
	// patience is the time in which nodes become ready.
	patience = 2 * time.Minute
)

// Cluster is the nodes of a test, numbered from 0. Their names are n0, n1 and so on.
type Cluster struct {
	Network *memnet.Network

	t       testing.TB
	dir     string
	edit    func(i int, cfg *node.Config)
	members []*member
}

type member struct {
	http, peer string // addresses, the same at each start
	host       *memnet.Host
	node       *node.Node     // nil: stopped
	closing    sync.WaitGroup // of the last run, after a Kill
}

// Start starts n nodes, which form a cluster until the test ends, and waits until all are ready. edit, if not nil,
// changes a node's settings at each start.
func Start(t testing.TB, n int, edit func(i int, cfg *node.Config)) *Cluster {
	t.Helper()
	if edit == nil {
		edit = func(int, *node.Config) {}
	}
	c := &Cluster{Network: memnet.New(), t: t, dir: t.TempDir(), edit: edit}
	for range n {
		c.members = append(c.members, &member{http: c.Network.Addr(), peer: c.Network.Addr()})
	}
	t.Cleanup(c.stop)
	for i := range c.members {
		c.start(i)
	}
	for i := range c.members {
		c.await(i)
	}
	return c
}

// URLs returns the base URLs of all nodes.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.members))
	for i := range c.members {
		urls[i] = c.URL(i)
	}
	return urls
}

// URL returns the base URL of a node.
func (c *Cluster) URL(i int) string { return "http://" + c.members[i].http }

// Node returns a running node; nil: it is stopped.
func (c *Cluster) Node(i int) *node.Node { return c.members[i].node }

// Name returns the name of a node.
func Name(i int) string { return fmt.Sprint("n", i) }

// Index returns the number of the node with a name. There must be one.
func (c *Cluster) Index(name string) int {
	c.t.Helper()
	for i := range c.members {
		if Name(i) == name {
			return i
		}
	}
	c.t.Fatalf("there is no node %q", name)
	return -1
}

// Kill ends a node. For all others it looks as if its process had been killed, and it hands nothing over. The node
// closes its files later.
func (c *Cluster) Kill(i int) {
	m := c.members[i]
	m.host.Cut()
	n := m.node
	m.node = nil
	m.closing.Go(func() { c.close(i, n) })
}

// Stop ends a node as an operator does.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	m := c.members[i]
	m.closing.Wait()
	n := m.node
	m.node = nil
	c.close(i, n)
}

// Restart starts a node that was stopped or killed with the data of its last run, and waits until it is ready.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.start(i)
	c.await(i)
}

func (c *Cluster) start(i int) {
	c.t.Helper()
	m := c.members[i]
	m.closing.Wait()
	m.host = c.Network.Host()
	cfg := node.DefaultConfig()
	cfg.DataDir, cfg.Name, cfg.Network = filepath.Join(c.dir, Name(i)), Name(i), m.host
	cfg.HTTPAddr, cfg.PeerAddr = m.http, m.peer
	cfg.BootstrapExpect, cfg.Shards, cfg.MinFreeDisk = len(c.members), shards, headroom.NoReserve()
	cfg.WebhookNets = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Logger = c.logger(i)
	cfg.Fatal = func(err error) { panic(err) }
	for j, other := range c.members {
		if j != i {
			cfg.Join = append(cfg.Join, other.peer)
		}
	}
	c.edit(i, &cfg)
	var err error
	if m.node, err = node.Start(c.t.Context(), cfg); err != nil {
		c.t.Fatalf("%s: %v", Name(i), err)
	}
}

func (c *Cluster) await(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.members[i].node.AwaitReady(ctx); err != nil {
		c.t.Fatalf("%s: %v", Name(i), err)
	}
}

func (c *Cluster) logger(i int) *slog.Logger {
	level := slog.LevelError
	if os.Getenv("BELFRY_TEST_LOG") != "" {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: level})).With("at", Name(i))
}

func (c *Cluster) close(i int, n *node.Node) {
	c.t.Helper()
	if n == nil {
		return
	}
	if err := n.Close(); err != nil {
		c.t.Errorf("%s: %v", Name(i), err)
	}
}

// stop ends all nodes, and waits for the goroutines of memberlist and Raft.
func (c *Cluster) stop() {
	var wg sync.WaitGroup
	for i := range c.members {
		wg.Go(func() { c.Stop(i) })
	}
	wg.Wait()
	<-time.After(stragglers)
}

// HTTP returns an HTTP client of the nodes and receivers. Its idle connections end with the test.
func (c *Cluster) HTTP() *http.Client {
	transport := &http.Transport{
		MaxIdleConnsPerHost: 256, IdleConnTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return c.Network.Dial(ctx, addr) },
	}
	c.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Client returns a client of the nodes until the test ends. Its HTTPClient is one of HTTP, and its Addrs are those of
// all nodes if cfg names none.
func (c *Cluster) Client(cfg client.Config) *client.Client {
	c.t.Helper()
	cfg.HTTPClient = c.HTTP()
	if cfg.Addrs == nil {
		cfg.Addrs = c.URLs()
	}
	made, err := client.New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(made.Close)
	return made
}

// Listen opens a listener for a receiver. It stays open until the test ends.
func (c *Cluster) Listen() net.Listener {
	c.t.Helper()
	l, err := c.Network.ListenTCP("127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = l.Close() })
	return l
}
