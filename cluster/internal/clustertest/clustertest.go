// Package clustertest runs whole clusters in one test process, with their data in a folder of the test. At the end of
// the test it checks that the replicas of each shard agree, that no error was fatal, and that every node stops cleanly.
//
// The nodes of a test speak over a network in memory, and the test runs in a bubble of testing/synctest: their clock
// moves only when every goroutine waits, and stands while one computes or writes a file. So no test waits for real
// time, and a busy machine makes a test slower and nothing else. A Cluster belongs to the bubble in which it was made.
// The nodes of NewOnLoopback speak over loopback, in real time.
package clustertest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/memnet"
	"github.com/belfryhq/belfry/shard"
)

// patience is how long the cluster may take to reach a state by itself.
const patience = 2 * time.Minute

// stragglers is how long a goroutine of memberlist or Raft may outlive its closed node, waiting for an answer. A bubble
// must not end before its goroutines.
const stragglers = time.Minute

// Shards is how many shards a cluster has unless its test says otherwise: one for each of three nodes to lead.
const Shards = 3

// Cluster is a set of nodes, numbered from 0. Only the test's goroutine may call its methods.
type Cluster struct {
	Deliver *Receiver // receiver of every node
	// Damaged: the test makes replicas differ, and the cluster does not compare them at the end.
	Damaged bool

	t       testing.TB
	network *memnet.Network // nil: the system's
	edit    func(i int, cfg *cluster.Config)
	dir     string
	members []*member
}

type member struct {
	node     *cluster.Node // nil: stopped
	addr     string        // its last address
	registry *prometheus.Registry
}

// New starts n nodes, which form a cluster, and waits until all are ready. edit, if not nil, changes a node's
// configuration at each start.
func New(t testing.TB, n int, edit func(i int, cfg *cluster.Config)) *Cluster {
	t.Helper()
	return Prepare(t, n, edit).startAll()
}

// NewOnLoopback is New with nodes that speak over the system's network and write to a disk, in real time, as benchmarks
// need it. A busy machine may let a node lose its leaderships at any time.
func NewOnLoopback(t testing.TB, n int, edit func(i int, cfg *cluster.Config)) *Cluster {
	t.Helper()
	return prepare(t, n, nil, edit).startAll()
}

// Prepare is New without starting any node.
func Prepare(t testing.TB, n int, edit func(i int, cfg *cluster.Config)) *Cluster {
	t.Helper()
	return prepare(t, n, memnet.New(), edit)
}

// startAll starts all nodes, and waits until they are ready.
func (c *Cluster) startAll() *Cluster {
	c.t.Helper()
	for i := range c.members {
		c.Start(i)
	}
	c.WaitReady()
	return c
}

func prepare(t testing.TB, n int, network *memnet.Network, edit func(i int, cfg *cluster.Config)) *Cluster {
	t.Helper()
	if edit == nil {
		edit = func(int, *cluster.Config) {}
	}
	c := &Cluster{Deliver: &Receiver{}, t: t, network: network, edit: edit}
	if network == nil {
		c.dir = t.TempDir()
	} else {
		c.dir = folder(t)
	}
	for range n {
		c.Add()
	}
	t.Cleanup(c.close)
	return c
}

// Add adds a node that will join the cluster. It does not start the node.
func (c *Cluster) Add() int {
	c.members = append(c.members, &member{addr: c.FreeAddr()})
	return len(c.members) - 1
}

// FreeAddr returns an address at which no node has listened.
func (c *Cluster) FreeAddr() string {
	if c.network == nil {
		return freePort(c.t)
	}
	return c.network.Addr()
}

// Network returns the network of the nodes of a test.
func (c *Cluster) Network() *memnet.Network { return c.network }

// Start starts a node with the data of its last run.
func (c *Cluster) Start(i int) *cluster.Node {
	c.t.Helper()
	m := c.members[i]
	m.registry = prometheus.NewRegistry()
	cfg := c.config(i)
	c.edit(i, &cfg)
	node, err := cluster.Open(cfg)
	if err != nil {
		c.t.Fatalf("node %d: %v", i, err)
	}
	m.node, m.addr = node, node.PeerAddr()
	return node
}

func (c *Cluster) config(i int) cluster.Config {
	cfg := cluster.Config{
		DataDir: c.DataDir(i), Name: fmt.Sprint("n", i), BindAddr: c.members[i].addr,
		BootstrapExpect: c.formers(), Shards: Shards,
		Deliver: c.Deliver, Registerer: c.members[i].registry, Logger: c.logger(i),
		Fatal: func(err error) { c.t.Errorf("node %d: fatal: %v", i, err) },
	}
	if c.network != nil {
		cfg.Network = c.network
	}
	cfg.MinFreeDisk = headroom.NoReserve() // tests need little room, also on a machine that has little
	for j, other := range c.members {
		if j != i {
			cfg.Join = append(cfg.Join, other.addr)
		}
	}
	return cfg
}

// DataDir returns the path of a node's data folder.
func (c *Cluster) DataDir(i int) string { return filepath.Join(c.dir, fmt.Sprint("node-", i)) }

// formers returns how many nodes form the cluster: an odd number of at most five.
func (c *Cluster) formers() int {
	switch n := len(c.members); {
	case n >= 5:
		return 5
	case n >= 3:
		return 3
	default:
		return 1
	}
}

func (c *Cluster) logger(i int) *slog.Logger {
	level := slog.LevelError
	if os.Getenv("BELFRY_TEST_LOG") != "" {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: level})).With("at", i)
}

// Stop closes a node as an operator would.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.stop(ctx, i)
}

// Crash closes a node without transferring its leaderships. Its files are closed all the same.
func (c *Cluster) Crash(i int) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.stop(ctx, i)
}

func (c *Cluster) stop(ctx context.Context, i int) {
	c.t.Helper()
	node := c.members[i].node
	c.members[i].node = nil
	if node == nil {
		return
	}
	if err := node.Close(ctx); err != nil {
		c.t.Errorf("node %d: %v", i, err)
	}
}

// Node returns a running node; nil: it is stopped.
func (c *Cluster) Node(i int) *cluster.Node { return c.members[i].node }

// Nodes returns the running nodes.
func (c *Cluster) Nodes() []*cluster.Node {
	var running []*cluster.Node
	for _, m := range c.members {
		if m.node != nil {
			running = append(running, m.node)
		}
	}
	return running
}

// Registry returns the metrics of a node since its last start.
func (c *Cluster) Registry(i int) *prometheus.Registry { return c.members[i].registry }

// Index returns the number of the running node with this id; -1: there is none.
func (c *Cluster) Index(id string) int {
	for i, m := range c.members {
		if m.node != nil && m.node.ID() == id {
			return i
		}
	}
	return -1
}

// WaitReady waits until every running node is ready.
func (c *Cluster) WaitReady() {
	c.t.Helper()
	c.Until("every node is ready", func() error {
		for i, m := range c.members {
			if m.node == nil {
				continue
			}
			if err := m.node.Ready(); err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
		}
		return nil
	})
}

// Until waits until the condition returns nil. It fails the test with the condition's last error.
func (c *Cluster) Until(what string, condition func() error) {
	c.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-timeout:
			c.t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
	}
}

// close compares the replicas, and then stops the running nodes.
func (c *Cluster) close() {
	for _, m := range c.members {
		if m.node != nil && m.node.Ready() == nil && !c.t.Failed() && !c.Damaged {
			c.WaitAgree(m.node)
			break
		}
	}
	var wg sync.WaitGroup
	for i := range c.members {
		wg.Go(func() { c.Stop(i) })
	}
	wg.Wait()
	if c.network != nil {
		<-time.After(stragglers)
	}
	c.members = nil // package testing keeps a parallel test with its cleanups, and so c, until all tests have ended
}

// WaitAgree waits until the node sees that the replicas of each shard have carried out the same commands. A node that
// stops just after an answer may lack the last entries.
func (c *Cluster) WaitAgree(n *cluster.Node) {
	c.t.Helper()
	c.Until("replicas agree", func() error { return agree(n.View(context.Background())) })
}

// agree returns an error if two replicas of a shard differ, or have carried out different numbers of commands. It
// ignores the replicas of stopped nodes.
func agree(v cluster.View) error {
	for _, s := range v.Shards {
		var first *view.Replica
		for _, r := range s.Replicas {
			switch {
			case r.State == "unknown" || r.State == "absent":
			case first == nil:
				first = &r
			case r.Commands != first.Commands:
				return fmt.Errorf("shard %d: %d commands at %s, %d at %s", s.ID, first.Commands, first.Node, r.Commands, r.Node)
			case r.Hash != first.Hash:
				return fmt.Errorf("shard %d: after %d commands the replicas at %s and %s differ",
					s.ID, r.Commands, first.Node, r.Node)
			}
		}
	}
	return nil
}

// Receiver accepts every attempt and counts it.
type Receiver struct {
	mu       sync.Mutex
	attempts map[string]int // by id
}

var _ shard.Deliverer = (*Receiver)(nil)

// Deliver counts the attempt.
func (r *Receiver) Deliver(_ context.Context, a task.Attempt) task.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts == nil {
		r.attempts = make(map[string]int)
	}
	r.attempts[a.Task.Id]++
	return task.Outcome{Delivered: true}
}

// DeliverBatch counts each attempt.
func (r *Receiver) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	outcomes := make([]task.Outcome, len(batch))
	for i, a := range batch {
		outcomes[i] = r.Deliver(ctx, a)
	}
	return outcomes
}

// Attempts returns how often the task has been attempted.
func (r *Receiver) Attempts(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[id]
}
