package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/subject"
)

// connection is the client that all callers share. Its pipe sends concurrent commands as one pipeline.
type connection struct {
	client *goredis.Client
	pipe   *goredis.AutoPipeliner // a command's method returns before its answer; reading the result waits for it
}

func newConnection(client *goredis.Client) (connection, error) {
	pipe, err := client.AsyncAutoPipeline()
	return connection{client, pipe}, err
}

// Close leaves the shared connection open.
func (connection) Close() error { return nil }

// Polling intervals of the consumers of a sorted set.
const (
	PollFast    = 5 * time.Millisecond
	PollArticle = time.Second // the interval of many articles
)

const (
	keyDue      = "tasks:due"      // a sorted set of ids by due instant in milliseconds
	keyPayloads = "tasks:payloads" // a hash of payloads by id
)

// SortedSet returns Redis with a sorted set by due instant and a hash of payloads. Consumers poll the set.
func SortedSet(fsync Fsync, poll time.Duration) subject.Subject {
	name := fmt.Sprintf("Redis sorted set, %s", fsync)
	if poll != PollFast {
		name += fmt.Sprintf(", %v poll", poll)
	}
	return redisSubject(name, fsync, func(client *goredis.Client) (subject.Caller, error) {
		c, err := newConnection(client)
		return &sortedSetCaller{c, poll}, err
	})
}

type sortedSetCaller struct {
	connection
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

//go:embed claim.lua
var claimSource string

const (
	claimMost  = 1000 // tasks a claim; a script takes at most some thousands of arguments
	lease      = 30 * time.Second
	ackTimeout = 5 * time.Second
)

// Consume claims due tasks. It claims again at once after a full claim, and acknowledges that claim together with the
// next one.
func (c *sortedSetCaller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	script := goredis.NewScript(claimSource)
	if err := script.Load(ctx, c.client).Err(); err != nil {
		return subject.Ended(ctx, err)
	}
	poll := time.NewTicker(c.poll)
	defer poll.Stop()
	var taken []string
	for {
		ids, err := c.claim(ctx, script, taken)
		if err != nil {
			return subject.Ended(ctx, errors.Join(err, c.acknowledge(ctx, taken)))
		}
		at := time.Now()
		for _, id := range ids {
			got(id, at)
		}
		if taken = ids; len(taken) == claimMost && ctx.Err() == nil {
			continue
		}
		if err := c.acknowledge(ctx, taken); err != nil {
			return err
		}
		taken = nil
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// claim acknowledges the tasks of the last claim and takes due ones.
func (c *sortedSetCaller) claim(ctx context.Context, script *goredis.Script, taken []string) ([]string, error) {
	now := time.Now()
	pipe := c.client.Pipeline()
	if len(taken) > 0 {
		remove(ctx, pipe, taken)
	}
	claim := script.EvalSha(ctx, pipe, []string{keyDue, keyPayloads},
		now.UnixMilli(), now.Add(lease).UnixMilli(), claimMost)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	reply, err := claim.Slice()
	if err != nil {
		return nil, err
	}
	return claimed(reply)
}

// claimed checks that each id has a payload.
func claimed(reply []any) ([]string, error) {
	if len(reply) != 2 {
		return nil, fmt.Errorf("the claim's answer has %d parts", len(reply))
	}
	ids, ok := reply[0].([]any)
	payloads, also := reply[1].([]any)
	if !ok || !also || len(ids) != len(payloads) {
		return nil, fmt.Errorf("the claim's answer has ids of type %T and payloads of type %T", reply[0], reply[1])
	}
	out := make([]string, len(ids))
	for i := range ids {
		if out[i], ok = ids[i].(string); !ok {
			return nil, fmt.Errorf("an id of type %T", ids[i])
		}
		if _, ok = payloads[i].(string); !ok {
			return nil, fmt.Errorf("task %s has no payload", out[i])
		}
	}
	return out, nil
}

// acknowledge removes received tasks, even if the context has ended.
func (c *sortedSetCaller) acknowledge(ctx context.Context, taken []string) error {
	if len(taken) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
	defer cancel()
	pipe := c.client.Pipeline()
	remove(ctx, pipe, taken)
	_, err := pipe.Exec(ctx)
	return err
}

// remove removes tasks, at least one.
func remove(ctx context.Context, pipe goredis.Cmdable, ids []string) (removed, forgotten *goredis.IntCmd) {
	return pipe.ZRem(ctx, keyDue, ids), pipe.HDel(ctx, keyPayloads, ids...)
}
