package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/peers/redisserver"
	"github.com/belfryhq/belfry/bench/subject"
)

// Polling intervals of the consumers of a sorted set.
const (
	PollFast    = 5 * time.Millisecond
	PollArticle = time.Second // the interval of many articles
)

const (
	keyDue      = "tasks:due"      // a sorted set of ids by due instant in milliseconds
	keyPayloads = "tasks:payloads" // a hash of payloads by id
)

type sortedSet struct {
	fsync redisserver.Fsync
	poll  time.Duration
}

// SortedSet returns Redis with a sorted set by due instant and a hash of payloads. Consumers poll the set.
func SortedSet(fsync redisserver.Fsync, poll time.Duration) subject.Subject {
	return sortedSet{fsync, poll}
}

func (s sortedSet) Name() string {
	name := fmt.Sprintf("Redis sorted set, %s", s.fsync)
	if s.poll != PollFast {
		name += fmt.Sprintf(", %v poll", s.poll)
	}
	return name
}

func (s sortedSet) Promise() subject.Promise { return s.fsync.Promise() }
func (sortedSet) Missing() string            { return redisserver.Missing() }

func (s sortedSet) Start(ctx context.Context, dir string) (subject.Service, error) {
	server, err := redisserver.Start(ctx, dir, s.fsync)
	if err != nil {
		return nil, err
	}
	return &service{Server: server, caller: func(c *connection) (subject.Caller, error) {
		return &sortedSetCaller{c, s.poll}, nil
	}}, nil
}

type sortedSetCaller struct {
	*connection
	poll time.Duration
}

func (c *sortedSetCaller) Schedule(ctx context.Context, task subject.Task) error {
	return c.ScheduleBatch(ctx, []subject.Task{task})
}

func (c *sortedSetCaller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	payloads, dues := make([]any, 0, 2*len(tasks)), make([]goredis.Z, len(tasks))
	for i, t := range tasks {
		payloads = append(payloads, t.ID, t.Payload)
		dues[i] = goredis.Z{Score: float64(t.Due.UnixMilli()), Member: t.ID}
	}
	stored := c.pipe.HSet(ctx, keyPayloads, payloads...)
	added := c.pipe.ZAdd(ctx, keyDue, dues...)
	return errors.Join(stored.Err(), added.Err())
}

func (c *sortedSetCaller) Cancel(ctx context.Context, id string) error {
	return c.CancelBatch(ctx, []string{id})
}

func (c *sortedSetCaller) CancelBatch(ctx context.Context, ids []string) error {
	removed, forgotten := remove(ctx, c.pipe, ids)
	if err := errors.Join(removed.Err(), forgotten.Err()); err != nil {
		return err
	}
	if n := removed.Val(); n != int64(len(ids)) {
		return fmt.Errorf("%d of %d tasks are not there", int64(len(ids))-n, len(ids))
	}
	return nil
}

func (c *sortedSetCaller) Touch(ctx context.Context, id string, due time.Time) error {
	changed, err := c.pipe.ZAddArgs(ctx, keyDue, goredis.ZAddArgs{
		XX: true, Ch: true, Members: []goredis.Z{{Score: float64(due.UnixMilli()), Member: id}},
	}).Result()
	if err == nil && changed == 0 {
		return fmt.Errorf("task %s is not there, or was due then already", id)
	}
	return err
}
