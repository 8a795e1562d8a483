package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

const (
	killAfter   = 0.4 // of the spread
	failoverMax = 30 * time.Second
	deadFor     = 3 * time.Second // downtime of the node at least, so that the others are seen to do without it
)

// breakAndMend kills the leader of the busiest shard during the run, measures the recovery of its shards, and starts
// the node again.
func (r *run) breakAndMend(ctx context.Context) (failover, error) {
	if !wait.For(ctx, time.Until(r.tally.dueAt(killAfter))) {
		return failover{}, ctx.Err()
	}
	view, err := r.awaitLeaders(ctx)
	if err != nil {
		return failover{}, err
	}
	target, err := r.chooseVictim(view)
	if err != nil {
		return failover{}, err
	}
	f, err := r.kill(ctx, target)
	if err != nil {
		return failover{}, err
	}
	if !wait.For(ctx, time.Until(f.killed.Add(deadFor))) {
		return failover{}, ctx.Err()
	}
	if err := r.cluster.StartNode(ctx, f.victim); err != nil {
		return failover{}, err
	}
	r.screen.say("%s is back and ready", f.victim)
	return f, nil
}

// victim is the node to kill, and the shards that it leads.
type victim struct {
	name    string
	busiest client.Shard
	shards  []uint32
}

func (r *run) chooseVictim(view *client.Cluster) (victim, error) {
	busiest := slices.MaxFunc(view.Shards, func(a, b client.Shard) int { return cmp.Compare(a.Tasks, b.Tasks) })
	node := view.Node(busiest.Leader)
	if node == nil {
		return victim{}, fmt.Errorf("shard %d is led by %s, which is no node of the cluster", busiest.ID, busiest.Leader)
	}
	v := victim{name: node.Name, busiest: busiest}
	for _, shard := range view.Shards {
		if shard.Leader == node.ID {
			v.shards = append(v.shards, shard.ID)
		}
	}
	return v, nil
}

func (r *run) kill(ctx context.Context, v victim) (failover, error) {
	r.screen.say("kill -9 %s, which leads shard %d (the busiest, %d tasks) and %d more",
		v.name, v.busiest.ID, v.busiest.Tasks, len(v.shards)-1)
	survivors, err := client.New(client.Config{
		Addrs: r.survivors(v.name), MaxAttempts: 1, FixedAddrs: true, SingleCalls: true, // no retries
	})
	if err != nil {
		return failover{}, err
	}
	f := failover{victim: v.name, shards: len(v.shards), killed: time.Now()}
	if err := r.cluster.Kill(v.name); err != nil {
		return f, err
	}
	ctx, cancel := context.WithTimeout(ctx, failoverMax)
	defer cancel()
	if f.over, err = r.probes.awaitWrites(ctx, survivors, v.shards); err != nil {
		return f, fmt.Errorf("after the death of %s: %w", v.name, err)
	}
	r.screen.say("all %d shards of %s take writes again after %v", f.shards, f.victim,
		f.over.Sub(f.killed).Round(time.Millisecond))
	return f, nil
}

func (r *run) survivors(dead string) []string {
	var urls []string
	for _, n := range r.cluster.Nodes() {
		if n.Name != dead {
			urls = append(urls, "http://"+n.HTTPAddr)
		}
	}
	return urls
}
