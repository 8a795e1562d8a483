package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/subject"
)

const (
	expiryPrefix  = "task:"
	expiryChannel = "__keyevent@0__:expired"
	forgetMost    = 100 // payloads removed at once
)

// Expiry returns Redis with one key a task, which expires when the task is due. Consumers listen to the server's expiry
// events. A hash holds the payload, because an expired key has no value any more.
func Expiry() subject.Subject {
	return redisSubject("Redis key expiry events", EverySecond, func(client *goredis.Client) (subject.Caller, error) {
		c, err := newConnection(client)
		return &expiryCaller{c}, err
	}, "--notify-keyspace-events", "Ex")
}

type expiryCaller struct{ connection }

func (c *expiryCaller) Schedule(ctx context.Context, task subject.Task) error {
	stored := c.pipe.HSet(ctx, keyPayloads, task.ID, task.Payload)
	set := c.pipe.SetArgs(ctx, expiryPrefix+task.ID, "", goredis.SetArgs{ExpireAt: task.Due})
	return errors.Join(stored.Err(), set.Err())
}

func (c *expiryCaller) Cancel(ctx context.Context, id string) error {
	removed, forgotten := c.pipe.Del(ctx, expiryPrefix+id), c.pipe.HDel(ctx, keyPayloads, id)
	if err := errors.Join(removed.Err(), forgotten.Err()); err != nil {
		return err
	}
	if removed.Val() == 0 {
		return fmt.Errorf("task %s is not there", id)
	}
	return nil
}

// Consume receives the keys that expire while it listens. Other expired tasks are lost.
func (c *expiryCaller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	events := c.client.Subscribe(ctx, expiryChannel)
	defer func() { _ = events.Close() }() // the only error is an earlier close
	expired := events.Channel()
	var received []string
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-expired:
			if !ok {
				return errors.New("the subscription has ended")
			}
			at := time.Now()
			id, ok := strings.CutPrefix(event.Payload, expiryPrefix)
			if !ok {
				return fmt.Errorf("key %q has expired, which is no task's", event.Payload)
			}
			got(id, at)
			received = append(received, id)
		}
		if len(expired) > 0 && len(received) < forgetMost {
			continue
		}
		if err := c.pipe.HDel(ctx, keyPayloads, received...).Err(); err != nil {
			return subject.Ended(ctx, err)
		}
		received = received[:0]
	}
}
