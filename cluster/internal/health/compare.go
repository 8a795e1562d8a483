package health

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Run compares until the context ends.
func (n *Nodes) Run(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.Every)
	defer ticker.Stop()
	for {
		n.round(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Outvoted reports whether a node's replica of a shard, on this node or another, differs from the state that a majority
// of the shard's replicas agree in.
func (n *Nodes) Outvoted(id uint32, node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.shards[id]
	switch {
	case l == nil:
		return false
	case node == n.cfg.Self:
		return l.outvoted
	}
	r := l.others[node]
	return r != nil && r.outvoted
}

// Diverged reports whether a node's replica of a shard, on this node or another, differs from another replica and is
// not known to be in the majority.
func (n *Nodes) Diverged(id uint32, node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.shards[id]
	switch {
	case l == nil:
		return false
	case node == n.cfg.Self:
		return l.diverged()
	}
	r := l.others[node]
	return r != nil && (r.outvoted || r.diverged)
}

func (l *ledger) diverged() bool { return l.outvoted || l.disputed }

// Compare returns the health of this node, and the reports of the requested replicas that are on it.
func (n *Nodes) Compare(request *clusterpb.CompareRequest) *clusterpb.CompareReply {
	reply := &clusterpb.CompareReply{Health: n.Report()}
	replicas := n.cfg.Node.Replicas()
	for _, asked := range request.Replicas {
		at := slices.IndexFunc(replicas, func(r Replica) bool { return r.ID() == asked.Shard })
		if at >= 0 {
			reply.Replicas = append(reply.Replicas, n.report(replicas[at], asked.From))
		}
	}
	return reply
}

func (n *Nodes) report(r Replica, from uint64) *clusterpb.ReplicaReport {
	report := &clusterpb.ReplicaReport{Shard: r.ID()}
	for _, p := range r.Checkpoints(from) {
		report.Checkpoints = append(report.Checkpoints, &clusterpb.Checkpoint{Index: p.Index, Hash: p.Sum})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.shards[r.ID()]; l != nil {
		report.Outvoted, report.Diverged = l.outvotedNodes(), l.diverged()
	}
	return report
}

// round asks every node that shares a shard with this node, and judges the replicas.
func (n *Nodes) round(ctx context.Context) {
	replicas := make(map[uint32]Replica)
	for _, r := range n.cfg.Node.Replicas() {
		replicas[r.ID()] = r
	}
	n.follow(replicas)
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Every)
	defer cancel()
	var asking sync.WaitGroup
	for node, request := range n.requests(replicas) {
		asking.Go(func() {
			reply, err := n.cfg.Peers.Compare(ctx, node, request)
			if err != nil {
				n.cfg.Logger.Debug("a node does not tell of its replicas", "node", node, "err", err)
				return
			}
			n.hear(node, reply, replicas)
		})
	}
	asking.Wait()
	n.vote(replicas)
	n.Judge()
}

// follow starts a new ledger for a replica that is new on this node, or whose state was replaced.
func (n *Nodes) follow(replicas map[uint32]Replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range replicas {
		l := n.shards[id]
		if l != nil && l.replica == r && l.restores == r.Restores() {
			continue
		}
		if l != nil && l.diverged() {
			n.cfg.Logger.Info("a diverged replica's state was replaced", "shard", id)
		}
		n.shards[id] = newLedger(r)
	}
}

// requests returns the request for each node, which asks for the checkpoints that are not compared yet.
func (n *Nodes) requests(replicas map[uint32]Replica) map[string]*clusterpb.CompareRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	requests := make(map[string]*clusterpb.CompareRequest)
	for id, r := range replicas {
		for _, node := range r.Voters() {
			if node == n.cfg.Self {
				continue
			}
			if requests[node] == nil {
				requests[node] = &clusterpb.CompareRequest{}
			}
			asked := &clusterpb.ReplicaAsked{Shard: id, From: n.shards[id].of(node).seen}
			requests[node].Replicas = append(requests[node].Replicas, asked)
		}
	}
	return requests
}

// hear records what another node reports of itself and of its replicas.
func (n *Nodes) hear(node string, reply *clusterpb.CompareReply, replicas map[uint32]Replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reports[node] = reply.GetHealth()
	for _, report := range reply.GetReplicas() {
		r, l := replicas[report.Shard], n.shards[report.Shard]
		if r == nil || l == nil || r.Restores() != l.restores {
			continue
		}
		relation := l.of(node)
		before := relation.differs
		compared, began := relation.hear(report, n.cfg.Self, r)
		n.metrics.compared.Add(float64(compared))
		if began != nil {
			n.tellDifference(report.Shard, node, began)
		}
		if relation.differs == nil && (before != nil || began != nil) {
			n.cfg.Logger.Info("replicas that differed are equal again", "shard", report.Shard, "node", n.cfg.Self,
				"other_node", node, "index", relation.seen)
		}
		n.metrics.differs(report.Shard, node, relation.differs != nil)
	}
}

func (n *Nodes) tellDifference(id uint32, node string, d *difference) {
	n.metrics.divergences.Inc()
	n.cfg.Logger.Error("replicas differ", "shard", id, "index", d.index,
		"node", n.cfg.Self, "hash", hex(d.own), "other_node", node, "other_hash", hex(d.other))
}

func hex(hash uint64) string { return fmt.Sprintf("%016x", hash) }

// vote finds the outvoted replicas, and logs the newly outvoted ones.
func (n *Nodes) vote(replicas map[uint32]Replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range replicas {
		l := n.shards[id]
		wasOut, known := l.outvoted, l.outvotedNodes()
		l.judge(n.cfg.Self, r.Voters())
		for _, node := range l.outvotedNodes() {
			if !slices.Contains(known, node) {
				n.cfg.Logger.Error("a replica is outvoted by the others of its shard: it will not lead",
					"shard", id, "outvoted", node, "index", l.others[node].differs.index)
			}
		}
		if l.outvoted && !wasOut {
			n.cfg.Logger.Error("this node's replica is outvoted by the others of its shard, and leads no more: "+
				"a copy of the others' will replace it",
				"shard", id, "outvoted", n.cfg.Self)
		}
		n.metrics.outvoted(id, l.outvoted)
	}
}

type metrics struct {
	compared, divergences prometheus.Counter
	apart, out            *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		compared: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_replica_comparisons_total",
			Help: "State hashes of other replicas that were compared with this node's at the same log index.",
		}),
		divergences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_replica_divergences_total",
			Help: "Times that another node's replica began to differ from this node's.",
		}),
		apart: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_replica_divergence",
			Help: "1 while a node's replica of a shard differs from this node's at the same log index.",
		}, []string{"shard", "node"}),
		out: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_replica_outvoted",
			Help: "1 if this node's replica of a shard differs from what a majority agrees in. It leads no more.",
		}, []string{"shard"}),
	}
	if r != nil {
		r.MustRegister(m.compared, m.divergences, m.apart, m.out)
	}
	return m
}

func (m *metrics) differs(shard uint32, node string, is bool) {
	m.apart.WithLabelValues(label(shard), node).Set(flag(is))
}

func (m *metrics) outvoted(shard uint32, is bool) { m.out.WithLabelValues(label(shard)).Set(flag(is)) }

func label(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
