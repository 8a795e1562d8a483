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

// probes are tasks, one in each shard and due long after the demo, whose only use is to be written to.
type probes map[uint32]string // shard to task id

const (
	probeDelay = time.Hour
	probeEvery = 20 * time.Millisecond
	probeLimit = time.Second // of one write
)

// placeProbes schedules tasks until every shard holds one: only the answer says where an id went.
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

// cancel takes the probes away again.
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

// firstWrite begins a write every few milliseconds, whether or not those before it are still waiting: one that was
// caught by the dead leader must not hide that the next would pass.
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
				return // the next may pass
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
