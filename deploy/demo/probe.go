package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
)

// probes are tasks for measuring writes: one in each shard, due long after the demo.
type probes map[uint32]string // task id by shard

const (
	probeDelay = time.Hour
	probeEvery = 20 * time.Millisecond
	probeLimit = time.Second // of one write
)

// placeProbes schedules tasks until every shard holds one. Only the answer tells the shard of an id.
func placeProbes(ctx context.Context, c *client.Client, prefix string, shards int) (probes, error) {
	placed := probes{}
	for i := 0; len(placed) < shards; i++ {
		if i == 100*shards {
			return nil, fmt.Errorf("%d ids fell on only %d of %d shards", i, len(placed), shards)
		}
		var task client.Task
		probe := client.Task{ID: prefix + strconv.Itoa(i), Delay: probeDelay}
		if _, err := c.Schedule(ctx, probe, client.ReturnTask(&task)); err != nil {
			return nil, err
		}
		if _, taken := placed[task.Shard]; !taken {
			placed[task.Shard] = task.ID
			continue
		}
		if _, err := c.Cancel(ctx, task.ID); err != nil {
			return nil, err
		}
	}
	return placed, nil
}

// cancel cancels the probes.
func (p probes) cancel(ctx context.Context, c *client.Client) error {
	for _, id := range p {
		if _, err := c.Cancel(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// awaitWrites returns the instant at which the last of the shards had taken a write.
func (p probes) awaitWrites(ctx context.Context, c *client.Client, shards []uint32) (time.Time, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var last time.Time
	var failed error
	for _, shard := range shards {
		wg.Go(func() {
			at, err := firstWrite(ctx, c, p[shard])
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			if at.After(last) {
				last = at
			}
		})
	}
	wg.Wait()
	return last, failed
}

// firstWrite begins a write every few milliseconds, even while earlier writes wait. A write that the dead leader took
// must not hide that a later one succeeds.
func firstWrite(ctx context.Context, c *client.Client, id string) (time.Time, error) {
	ctx, cancel := context.WithCancel(ctx)
	var tries sync.WaitGroup
	defer tries.Wait()
	defer cancel()
	done := make(chan time.Time)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		tries.Go(func() {
			if tryWrite(ctx, c, id) != nil {
				return // a later try may succeed
			}
			select {
			case done <- time.Now():
			case <-ctx.Done():
			}
		})
		select {
		case at := <-done:
			return at, nil
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no write to %s: %w", id, ctx.Err())
		case <-tick.C:
		}
	}
}

func tryWrite(ctx context.Context, c *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	_, err := c.Touch(ctx, id, client.Touch{Delay: probeDelay})
	return err
}
