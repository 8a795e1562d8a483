package compare

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/shard"
)

// every is the default interval between rounds. It also limits how long another node may take to answer.
const every = time.Second

// Replica is a replica on this node. *shard.Shard implements it.
type Replica interface {
	ID() uint32
	Voters() []string
	Checkpoints(from uint64) []shard.Checkpoint
	CheckpointAt(index uint64) (shard.Checkpoint, bool)
	Newest() shard.Checkpoint
	Restores() uint64
}

var _ Replica = (*shard.Shard)(nil)

// Config holds the replicas to compare, and the call to other nodes.
type Config struct {
	Self     string // node id
	Replicas func() []Replica
	// Ask sends a request to another node.
	Ask        func(ctx context.Context, node string, request *clusterpb.CompareRequest) (*clusterpb.CompareReply, error)
	Judged     func()        // called after each round
	Every      time.Duration // 0: a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Comparer compares this node's replicas with those on other nodes, and remembers the results. Its methods are safe for
// concurrent use.
type Comparer struct {
	cfg     Config
	metrics *metrics

	mu     sync.Mutex
	shards map[uint32]*ledger
}

// New returns a Comparer, which compares while Run runs.
func New(cfg Config) *Comparer {
	if cfg.Every == 0 {
		cfg.Every = every
	}
	return &Comparer{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), shards: make(map[uint32]*ledger),
	}
}

// Run compares until the context ends.
func (c *Comparer) Run(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.Every)
	defer ticker.Stop()
	for {
		c.round(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Outvoted reports whether a node's replica of a shard, on this node or another, differs from the state that a majority
// of the shard's replicas agree in.
func (c *Comparer) Outvoted(id uint32, node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.shards[id]
	switch {
	case l == nil:
		return false
	case node == c.cfg.Self:
		return l.outvoted
	}
	r := l.others[node]
	return r != nil && r.outvoted
}

// Diverged reports whether a node's replica of a shard, on this node or another, differs from another replica and is
// not known to be in the majority.
func (c *Comparer) Diverged(id uint32, node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.shards[id]
	switch {
	case l == nil:
		return false
	case node == c.cfg.Self:
		return l.diverged()
	}
	r := l.others[node]
	return r != nil && (r.outvoted || r.diverged)
}

func (l *ledger) diverged() bool { return l.outvoted || l.disputed }

// Report returns the reports of the requested replicas that are on this node.
func (c *Comparer) Report(request *clusterpb.CompareRequest) *clusterpb.CompareReply {
	reply := &clusterpb.CompareReply{}
	replicas := c.cfg.Replicas()
	for _, asked := range request.Replicas {
		at := slices.IndexFunc(replicas, func(r Replica) bool { return r.ID() == asked.Shard })
		if at >= 0 {
			reply.Replicas = append(reply.Replicas, c.report(replicas[at], asked.From))
		}
	}
	return reply
}

func (c *Comparer) report(r Replica, from uint64) *clusterpb.ReplicaReport {
	report := &clusterpb.ReplicaReport{Shard: r.ID()}
	for _, p := range r.Checkpoints(from) {
		report.Checkpoints = append(report.Checkpoints, &clusterpb.Checkpoint{Index: p.Index, Hash: p.Sum})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.shards[r.ID()]; l != nil {
		report.Outvoted, report.Diverged = l.outvotedNodes(), l.diverged()
	}
	return report
}

// round asks every node that shares a shard with this node, and judges the replicas.
func (c *Comparer) round(ctx context.Context) {
	replicas := make(map[uint32]Replica)
	for _, r := range c.cfg.Replicas() {
		replicas[r.ID()] = r
	}
	c.follow(replicas)
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Every)
	defer cancel()
	var asking sync.WaitGroup
	for node, request := range c.requests(replicas) {
		asking.Go(func() {
			reply, err := c.cfg.Ask(ctx, node, request)
			if err != nil {
				c.cfg.Logger.Debug("a node does not tell of its replicas", "node", node, "err", err)
				return
			}
			c.hear(node, reply, replicas)
		})
	}
	asking.Wait()
	c.judge(replicas)
	c.cfg.Judged()
}

// follow starts a new ledger for a replica that is new on this node, or whose state was replaced.
func (c *Comparer) follow(replicas map[uint32]Replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range replicas {
		l := c.shards[id]
		if l != nil && l.replica == r && l.restores == r.Restores() {
			continue
		}
		if l != nil && l.diverged() {
			c.cfg.Logger.Info("a diverged replica's state was replaced", "shard", id)
		}
		c.shards[id] = newLedger(r)
	}
}

// requests returns the request for each node, which asks for the checkpoints that are not compared yet.
func (c *Comparer) requests(replicas map[uint32]Replica) map[string]*clusterpb.CompareRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := make(map[string]*clusterpb.CompareRequest)
	for id, r := range replicas {
		for _, node := range r.Voters() {
			if node == c.cfg.Self {
				continue
			}
			if requests[node] == nil {
				requests[node] = &clusterpb.CompareRequest{}
			}
			asked := &clusterpb.ReplicaAsked{Shard: id, From: c.shards[id].of(node).seen}
			requests[node].Replicas = append(requests[node].Replicas, asked)
		}
	}
	return requests
}

func (c *Comparer) hear(node string, reply *clusterpb.CompareReply, replicas map[uint32]Replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, report := range reply.GetReplicas() {
		r, l := replicas[report.Shard], c.shards[report.Shard]
		if r == nil || l == nil || r.Restores() != l.restores {
			continue
		}
		relation := l.of(node)
		before := relation.differs
		compared, began := relation.hear(report, c.cfg.Self, replica{r})
		c.metrics.compared.Add(float64(compared))
		if began != nil {
			c.tellDifference(report.Shard, node, began)
		}
		if relation.differs == nil && (before != nil || began != nil) {
			c.cfg.Logger.Info("replicas that differed are equal again", "shard", report.Shard, "node", c.cfg.Self,
				"other_node", node, "index", relation.seen)
		}
		c.metrics.differs(report.Shard, node, relation.differs != nil)
	}
}

func (c *Comparer) tellDifference(id uint32, node string, d *difference) {
	c.metrics.divergences.Inc()
	c.cfg.Logger.Error("replicas differ", "shard", id, "index", d.index,
		"node", c.cfg.Self, "hash", hex(d.own), "other_node", node, "other_hash", hex(d.other))
}

func hex(hash uint64) string { return fmt.Sprintf("%016x", hash) }

// judge finds the outvoted replicas, and logs the newly outvoted ones.
func (c *Comparer) judge(replicas map[uint32]Replica) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range replicas {
		l := c.shards[id]
		wasOut, known := l.outvoted, l.outvotedNodes()
		l.judge(c.cfg.Self, r.Voters())
		for _, node := range l.outvotedNodes() {
			if !slices.Contains(known, node) {
				c.cfg.Logger.Error("a replica is outvoted by the others of its shard: it will not lead",
					"shard", id, "outvoted", node, "index", l.others[node].differs.index)
			}
		}
		if l.outvoted && !wasOut {
			c.cfg.Logger.Error("this node's replica is outvoted by the others of its shard, and leads no more: "+
				"a copy of the others' will replace it",
				"shard", id, "outvoted", c.cfg.Self)
		}
		c.metrics.outvoted(id, l.outvoted)
	}
}

// replica is a replica on this node; it implements own.
type replica struct{ Replica }

func (r replica) applied() uint64 { return r.Newest().Index }

func (r replica) hashAt(index uint64) (uint64, bool) {
	p, ok := r.CheckpointAt(index)
	return p.Sum, ok
}
