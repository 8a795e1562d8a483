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
