package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// replicas is a shard on several nodes in one process, over an in-memory network that the test can cut. It checks on
// close that the replicas agree.
type replicas struct {
	t      testing.TB
	ids    []string
	nodes  map[string]*node
	tune   func(*Config)
	wire   func(id string, inner *raft.InmemTransport) raft.Transport
	sink   *receiver
	fatals chan error
}

type node struct {
	*Shard
	inmem  *raft.InmemTransport
	stores *memStores
	offset *clockOffset
}

// memStores is a replica's disk in memory. It outlives the replica.
type memStores struct {
	*raft.InmemStore
	snapshots raft.SnapshotStore
}

func newMemStores() *memStores { return &memStores{raft.NewInmemStore(), raft.NewInmemSnapshotStore()} }

func (m memStores) Log() raft.LogStore            { return m.InmemStore }
func (m memStores) Stable() raft.StableStore      { return m.InmemStore }
func (m memStores) Snapshots() raft.SnapshotStore { return m.snapshots }
func (m memStores) Close() error                  { return nil }

type clockOffset struct {
	mu sync.Mutex
	by time.Duration
}

func (c *clockOffset) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (c *clockOffset) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by = by
}

// testNode is a Node that a test sets in part.
type testNode struct {
	noNode
	mayLead func(node string) bool
	fits    func(bytes int64) bool
}

func (n testNode) MayLead(_ uint32, node string) bool { return n.mayLead == nil || n.mayLead(node) }

func (n testNode) Fits(bytes int64) bool { return n.fits == nil || n.fits(bytes) }

// slowTiming makes simulated days cheap by rare heartbeats, which cost the most.
func slowTiming() Timing {
	t := LAN()
	t.Heartbeat, t.Election, t.Lease, t.Commit = 10*time.Second, 10*time.Second, 10*time.Second, 10*time.Second
	t.Calm, t.Stuck, t.HeadStart = time.Minute, 10*time.Minute, 20*time.Second
	return t
}

// newReplicas returns n replicas, none of which runs. They are closed at the end of the test.
func newReplicas(t testing.TB, n int, tune func(*Config)) *replicas {
	c := &replicas{t: t, nodes: map[string]*node{}, tune: tune, sink: &receiver{}, fatals: make(chan error, 16)}
	for i := range n {
		c.ids = append(c.ids, fmt.Sprintf("n%d", i+1))
	}
	for _, id := range c.ids {
		c.nodes[id] = &node{stores: newMemStores(), offset: &clockOffset{}}
	}
	t.Cleanup(c.close)
	return c
}

func (c *replicas) startAll() *replicas {
	for _, id := range c.ids {
		c.start(id)
	}
	return c
}

func (c *replicas) start(id string) {
	c.t.Helper()
	n := c.nodes[id]
	_, n.inmem = raft.NewInmemTransport(raft.ServerAddress(id))
	cfg := Config{
		NodeID: id, Transport: n.inmem, Deliver: c.sink.at(id), Clock: n.offset.now,
		Storage: n.stores,
		Fatal:   func(err error) { c.fatals <- err },
		Timing:  slowTiming(),
	}
	for _, peer := range c.ids {
		cfg.Replicas = append(cfg.Replicas, Replica{NodeID: peer})
	}
	if c.wire != nil {
		cfg.Transport = c.wire(id, n.inmem)
	}
	if c.tune != nil {
		c.tune(&cfg)
	}
	c.link(id)
	s, err := Open(cfg)
	assert.NoError(c.t, err)
	n.Shard = s
}

// link connects a node with all running nodes.
func (c *replicas) link(id string) {
	for _, peer := range c.ids {
		if p := c.nodes[peer]; peer != id && p.inmem != nil {
			c.nodes[id].inmem.Connect(raft.ServerAddress(peer), p.inmem)
			p.inmem.Connect(raft.ServerAddress(id), c.nodes[id].inmem)
		}
	}
}

// cut disconnects a node from the network.
func (c *replicas) cut(id string) {
	c.nodes[id].inmem.DisconnectAll()
	for _, peer := range c.ids {
		if p := c.nodes[peer]; peer != id && p.inmem != nil {
			p.inmem.Disconnect(raft.ServerAddress(id))
		}
	}
}

// kill stops a node as a crash would: the node neither gives its leadership away nor waits for attempts.
func (c *replicas) kill(id string) {
	n := c.nodes[id]
	if n.Shard == nil {
		return
	}
	c.cut(id)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.Equal(c.t, n.Close(ctx), nil)
	n.Shard, n.inmem = nil, nil
}

func (c *replicas) close() {
	for _, id := range c.ids {
		c.kill(id)
	}
	select {
	case err := <-c.fatals:
		c.t.Errorf("fatal: %v", err)
	default:
	}
}

// eventually polls until ok returns true. In a bubble the clock jumps from poll to poll.
func (c *replicas) eventually(what string, ok func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Minute)
	if c.tune != nil && c.timing().Heartbeat < time.Second {
		deadline = time.Now().Add(20 * time.Second)
	}
	for !ok() {
		if time.Now().After(deadline) {
			c.t.Fatalf("never: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (c *replicas) timing() Timing {
	for _, n := range c.nodes {
		if n.Shard != nil {
			return n.cfg.Timing
		}
	}
	return slowTiming()
}

// leader waits for a leader among the given nodes that answers calls; without arguments, among all running nodes.
func (c *replicas) leader(among ...string) *node {
	c.t.Helper()
	if len(among) == 0 {
		among = c.ids
	}
	var leader *node
	c.eventually("a leader", func() bool {
		for _, id := range among {
			if n := c.nodes[id]; n.Shard != nil && n.IsLeader() && n.group.Leads() {
				leader = n
				return true
			}
		}
		return false
	})
	return leader
}

// next waits until node n leads with another leadership than before.
func (c *replicas) next(n *node, before *leadership) {
	c.t.Helper()
	c.eventually("the next leadership", func() bool {
		l := n.current()
		return l != nil && l != before && l.term.Load() > 0
	})
}

func (c *replicas) others(id string) []string {
	return slices.DeleteFunc(slices.Clone(c.ids), func(other string) bool { return other == id })
}

// agree waits until all replicas have the same hash after the same number of commands.
func (c *replicas) agree() {
	c.t.Helper()
	c.eventually("agreement", func() bool {
		type fingerprint struct{ commands, sum uint64 }
		seen := map[fingerprint]bool{}
		for _, n := range c.nodes {
			commands, sum := n.machine.Hash()
			seen[fingerprint{commands, sum}] = true
		}
		return len(seen) == 1
	})
	for _, n := range c.nodes {
		for _, p := range n.Checkpoints(0) {
			for _, other := range c.nodes {
				if q, ok := other.CheckpointAt(p.Index); ok && q != p {
					c.t.Errorf("replicas differ at index %d: %v and %v", p.Index, p, q)
				}
			}
		}
	}
}

// receiver stands for all receivers and records what arrives.
type receiver struct {
	mu       sync.Mutex
	arrivals []arrival
	batches  []int                                            // sizes of the batches, in the order of their arrival
	respond  func(context.Context, task.Attempt) task.Outcome // nil: delivered
}

type arrival struct {
	node, id, webhookID string
	fence               uint64
	attempts            uint32
	at                  time.Time
}

type receiverAt struct {
	*receiver
	node string
}

func (r *receiver) at(node string) Deliverer { return receiverAt{r, node} }

func (r receiverAt) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	r.mu.Lock()
	r.arrivals = append(r.arrivals, arrival{
		node: r.node, id: a.Task.Id, webhookID: a.Task.WebhookId, fence: a.Task.Fence, attempts: a.Task.Attempts,
		at: time.Now(),
	})
	respond := r.respond
	r.mu.Unlock()
	if respond == nil {
		return task.Outcome{Delivered: true}
	}
	return respond(ctx, a)
}

func (r receiverAt) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	r.mu.Lock()
	r.batches = append(r.batches, len(batch))
	r.mu.Unlock()
	outcomes := make([]task.Outcome, len(batch))
	for i, a := range batch {
		outcomes[i] = r.Deliver(ctx, a)
	}
	return outcomes
}

// together returns the size of each batch.
func (r *receiver) together() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches)
}

func (r *receiver) all() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.arrivals)
}

func (r *receiver) of(id string) []arrival {
	return slices.DeleteFunc(r.all(), func(a arrival) bool { return a.id != id })
}

func schedule(id string, at time.Time) *fsmpb.Command {
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{
			Payload: []byte(`{"order":1042}`), Target: &fsmpb.Target{Url: "http://receiver.test:80/hook"},
		},
		FireAtMs: at.UnixMilli(), ReceivedAtMs: time.Now().UnixMilli(),
	}}}
}

func cancelOf(id string) *fsmpb.Command {
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}
}

// must returns the result of one command.
func (n *node) must(t testing.TB, cmd *fsmpb.Command) *fsmpb.Result {
	t.Helper()
	reply := n.Do(context.Background(), []*fsmpb.Command{cmd})[0]
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	return reply.Result
}

func (n *node) state(t testing.TB, id string) fsmpb.State {
	t.Helper()
	task, err := n.Get(context.Background(), "", id, false)
	assert.NoError(t, err)
	return task.GetState()
}

func isNotLeader(err error) bool {
	var notLeader *task.NotLeaderError
	return errors.As(err, &notLeader)
}
