package cluster

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/shard"
)

const (
	compareEvery   = 10 * time.Second
	checkpointsOut = 8 // of a replica, in its status
)

// comparer holds the replicas of the shards that this node leads against each other, all the time. Replicas that went
// apart (hashicorp/raft issue 695 was one way) would otherwise be noticed only after a failover, as lost or doubled
// tasks. It tells and does not mend: which of them is right, people must say.
type comparer struct {
	node     *Node
	compared prometheus.Counter
	apart    *prometheus.GaugeVec
	known    map[replicaKey]bool // told already
}

type replicaKey struct {
	shard uint32
	node  string
}

func newComparer(n *Node) *comparer {
	c := &comparer{
		node: n,
		compared: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "belfry_replicas_compared_total", Help: "Checkpoints of other replicas that equalled this leader's.",
		}),
		apart: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "belfry_replica_apart", Help: "1 if a replica's state differs from this leader's at the same log index.",
		}, []string{"shard", "node"}),
		known: make(map[replicaKey]bool),
	}
	if n.cfg.Registerer != nil {
		n.cfg.Registerer.MustRegister(c.compared, c.apart)
	}
	return c
}

// run compares until the node closes.
func (c *comparer) run() {
	for c.node.sleep(compareEvery) {
		c.compare(c.node.ctx)
	}
}

func (c *comparer) compare(ctx context.Context) {
	own := make(map[uint32]map[uint64]uint64)
	for _, s := range c.node.hosts.all() {
		if s.IsLeader() {
			own[s.Status().ID] = byIndex(checkpointsOf(s))
		}
	}
	if len(own) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, compareEvery)
	defer cancel()
	for node, replicas := range c.node.askAll(ctx, c.node.state()) {
		for id, r := range replicas {
			if checkpoints, ok := own[id]; ok && node != c.node.ID() {
				c.compareReplica(replicaKey{id, node}, checkpoints, r.Checkpoints)
			}
		}
	}
}

// compareReplica looks at the indexes that both have a checkpoint of.
func (c *comparer) compareReplica(key replicaKey, own map[uint64]uint64, theirs []*clusterpb.Checkpoint) {
	for _, p := range theirs {
		hash, ok := own[p.Index]
		switch {
		case !ok:
		case hash == p.Hash:
			c.compared.Inc()
		case !c.known[key]:
			c.known[key] = true
			c.apart.WithLabelValues(strconv.FormatUint(uint64(key.shard), 10), key.node).Set(1)
			c.node.cfg.Logger.Error("a replica's state differs from its leader's: stop its node, keep both data folders",
				"shard", key.shard, "node", key.node, "index", p.Index, "leader_hash", hash, "replica_hash", p.Hash)
		}
	}
}

func byIndex(checkpoints []*clusterpb.Checkpoint) map[uint64]uint64 {
	m := make(map[uint64]uint64, len(checkpoints))
	for _, p := range checkpoints {
		m[p.Index] = p.Hash
	}
	return m
}

// checkpointsOf returns a replica's newest few.
func checkpointsOf(s *shard.Shard) []*clusterpb.Checkpoint {
	kept := s.Checkpoints()
	kept = kept[max(0, len(kept)-checkpointsOut):]
	out := make([]*clusterpb.Checkpoint, len(kept))
	for i, p := range kept {
		out[i] = &clusterpb.Checkpoint{Index: p.Index, Hash: p.Sum}
	}
	return out
}
