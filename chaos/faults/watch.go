package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	pollEvery   = 100 * time.Millisecond
	pollTimeout = time.Second
)

// Watch polls every node for the leaders until the context ends. It records each new term, each range of slots that a
// shard gets, and each replica that a node reports as diverged. In the end it records when the last term of each shard
// was last seen.
func Watch(ctx context.Context, cluster *local.Cluster, rec *history.Recorder) error {
	w := &watch{
		rec: rec, shards: map[uint32]*leadership{}, diverged: map[replica]bool{}, owned: map[history.Owner]bool{},
	}
	clients, err := nodeClients(cluster)
	if err != nil {
		return err
	}
	var pollers sync.WaitGroup
	for _, c := range clients {
		pollers.Go(func() { w.poll(ctx, c) })
	}
	pollers.Wait()
	w.last()
	return nil
}

// nodeClients returns a client for each single node.
func nodeClients(cluster *local.Cluster) ([]*client.Client, error) {
	var all []*client.Client
	for _, url := range cluster.URLs() {
		c, err := client.New(client.Config{
			Addrs: []string{url}, KeyFile: cluster.KeyFile(), MaxAttempts: 1, FixedAddrs: true, Timeout: pollTimeout,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

type watch struct {
	rec *history.Recorder

	mu       sync.Mutex // guards the fields below
	shards   map[uint32]*leadership
	diverged map[replica]bool       // diverged replicas that are recorded
	owned    map[history.Owner]bool // ranges that are recorded, without their instants
}

type replica struct {
	shard uint32
	node  string
}

// leadership is the highest term of a shard that was seen.
type leadership struct {
	term   uint64
	leader string          // a node's name
	seen   history.Instant // last time that the term was seen
}

func (w *watch) poll(ctx context.Context, c *client.Client) {
	for wait.For(ctx, pollEvery) {
		view, err := c.Cluster(ctx)
		if err != nil {
			continue // the node is down or paused; the other pollers go on
		}
		for _, s := range view.Shards {
			if node := view.Node(s.Leader); node != nil {
				w.see(s.ID, s.Term, node.Name)
			}
			w.seeOwner(s)
		}
		for _, r := range replicasOf(view) {
			if r.Diverged {
				w.seeDiverged(r)
			}
		}
	}
}

func (w *watch) see(shard uint32, term uint64, leader string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.shards[shard]
	if l == nil {
		l = &leadership{}
		w.shards[shard] = l
	}
	if term > l.term {
		w.rec.Term(history.Term{Shard: shard, Term: term, Leader: leader, Before: l.seen})
		l.term, l.leader = term, leader
	}
	if term == l.term {
		l.seen = w.rec.Now()
	}
}

func (w *watch) seeOwner(s client.Shard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range s.Slots {
		if o := (history.Owner{Shard: s.ID, First: r.First, End: r.End}); !w.owned[o] {
			w.owned[o] = true
			w.rec.Owner(o)
		}
	}
}

func (w *watch) seeDiverged(r history.Replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := (replica{r.Shard, r.Node}); !w.diverged[key] {
		w.diverged[key] = true
		w.rec.Replica(r)
	}
}

// last records when each shard's term was last seen.
func (w *watch) last() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, shard := range slices.Sorted(maps.Keys(w.shards)) {
		l := w.shards[shard]
		w.rec.Term(history.Term{Shard: shard, Term: l.term, Leader: l.leader, Before: l.seen})
	}
}

// RecordReplicas waits, for each shard, until all replicas have applied equally many entries, as their own nodes
// report, and have a hash of their state. It then records their positions. It also records them if the context ends
// before. The shards need not rest: finished tasks of earlier rounds expire meanwhile.
func RecordReplicas(ctx context.Context, on *stand.Stand, rec *history.Recorder) error {
	seen := map[uint32][]history.Replica{} // the replicas of each shard: level ones, or those of the last look
	for {
		view, err := on.View(ctx)
		if err != nil {
			return fmt.Errorf("reading the replicas' positions: %w", err)
		}
		waits := false
		for shard, replicas := range byShard(replicasOf(view)) {
			if !areLevel(seen[shard]) {
				seen[shard] = replicas
			}
			waits = waits || !areLevel(seen[shard])
		}
		if waits && wait.For(ctx, pollEvery) {
			continue
		}
		for _, shard := range slices.Sorted(maps.Keys(seen)) {
			for _, r := range seen[shard] {
				rec.Replica(r)
			}
		}
		return nil
	}
}

func replicasOf(view *client.Cluster) []history.Replica {
	var all []history.Replica
	for _, s := range view.Shards {
		for _, r := range s.Replicas {
			name := r.Node
			if node := view.Node(r.Node); node != nil {
				name = node.Name
			}
			all = append(all, history.Replica{
				Shard: s.ID, Node: name, Applied: r.Applied, Hash: r.Hash, Diverged: r.Diverged})
		}
	}
	return all
}

func byShard(replicas []history.Replica) map[uint32][]history.Replica {
	shards := map[uint32][]history.Replica{}
	for _, r := range replicas {
		shards[r.Shard] = append(shards[r.Shard], r)
	}
	return shards
}

// areLevel reports whether the replicas of a shard, at least one, have applied equally many entries, and have hashes.
func areLevel(replicas []history.Replica) bool {
	differs := func(r history.Replica) bool { return r.Hash == "" || r.Applied != replicas[0].Applied }
	return len(replicas) > 0 && !slices.ContainsFunc(replicas, differs)
}
