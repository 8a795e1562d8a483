package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// Breaker breaks one cluster. One fault at a time.
type Breaker struct {
	cluster *local.Cluster
	client  *client.Client
	rec     *history.Recorder
}

const viewTimeout = 5 * time.Second

// NewBreaker breaks that cluster, and records what it does.
func NewBreaker(cluster *local.Cluster, rec *history.Recorder) (*Breaker, error) {
	c, err := client.New(client.Config{Addrs: cluster.URLs(), Timeout: viewTimeout, AttemptTimeout: viewTimeout / 5})
	if err != nil {
		return nil, err
	}
	return &Breaker{cluster: cluster, client: c, rec: rec}, nil
}

// Leaders returns the name of each shard's leader, once all shards have one.
func (b *Breaker) Leaders(ctx context.Context) (map[uint32]string, error) {
	for {
		view, err := b.client.Cluster(ctx)
		if err == nil {
			if leaders := leadersOf(view); len(leaders) > 0 && len(leaders) == len(view.Shards) {
				return leaders, nil
			}
		}
		if !wait(ctx, pollEvery) {
			return nil, errors.Join(errors.New("not all shards have leaders"), err, ctx.Err())
		}
	}
}

func leadersOf(view *client.Cluster) map[uint32]string {
	leaders := map[uint32]string{}
	for _, s := range view.Shards {
		if node := view.Node(s.Leader); node != nil {
			leaders[s.ID] = node.Name
		}
	}
	return leaders
}

// KillLeader kills the node that leads a shard with SIGKILL, and starts it again a while later.
func (b *Breaker) KillLeader(ctx context.Context, shard uint32, dead time.Duration) error {
	node, led, err := b.victim(ctx, shard)
	if err != nil {
		return err
	}
	fault := b.rec.Strike(history.Fault{Kind: history.KillLeader, Nodes: []string{node}, Shards: led})
	if err := b.cluster.Kill(node); err != nil {
		return err
	}
	if !wait(ctx, dead) {
		return ctx.Err()
	}
	b.rec.Mending(fault)
	if err := b.cluster.StartNode(ctx, node); err != nil {
		return err
	}
	b.rec.Mended(fault)
	return nil
}

// PauseLeader stops the node that leads a shard in its tracks, and lets it go on a while later, when it still believes
// to lead.
func (b *Breaker) PauseLeader(ctx context.Context, shard uint32, pause time.Duration) error {
	node, led, err := b.victim(ctx, shard)
	if err != nil {
		return err
	}
	fault := b.rec.Strike(history.Fault{Kind: history.PauseLeader, Nodes: []string{node}, Shards: led})
	if err := b.cluster.Pause(node); err != nil {
		return err
	}
	waited := wait(ctx, pause)
	b.rec.Mending(fault)
	if err := b.cluster.Resume(node); err != nil {
		return err
	}
	b.rec.Mended(fault)
	if !waited {
		return ctx.Err()
	}
	return nil
}

func (b *Breaker) victim(ctx context.Context, shard uint32) (node string, led []uint32, err error) {
	leaders, err := b.Leaders(ctx)
	if err != nil {
		return "", nil, err
	}
	node, ok := leaders[shard]
	if !ok {
		return "", nil, fmt.Errorf("there is no shard %d", shard)
	}
	for s, leader := range leaders {
		if leader == node {
			led = append(led, s)
		}
	}
	slices.Sort(led)
	return node, led, nil
}

// KillAll kills all nodes with SIGKILL at once, and starts all of them again at an instant, or at once if that is past.
func (b *Breaker) KillAll(ctx context.Context, again history.Instant) error {
	var nodes []string
	for _, n := range b.cluster.Nodes() {
		nodes = append(nodes, n.Name)
	}
	leaders, err := b.Leaders(ctx)
	if err != nil {
		return err
	}
	var shards []uint32
	for s := range leaders {
		shards = append(shards, s)
	}
	slices.Sort(shards)
	fault := b.rec.Strike(history.Fault{Kind: history.KillAll, Nodes: nodes, Shards: shards})
	if err := together(nodes, b.cluster.Kill); err != nil {
		return err
	}
	if !wait(ctx, again.Sub(b.rec.Now())) {
		return ctx.Err()
	}
	b.rec.Mending(fault)
	err = together(nodes, func(node string) error { return b.cluster.StartNode(ctx, node) })
	if err != nil {
		return err
	}
	b.rec.Mended(fault)
	return nil
}

// together does something to all nodes at once.
func together(nodes []string, do func(node string) error) error {
	failed := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() { failed[i] = do(node) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// wait returns after d, with false if the context ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
