package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// popDue is how a worker of the old program takes due members.
var popDue = redis.NewScript(1, `
	local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1000)
	if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
	return due`)

// oldWorker runs due members of the set delayed until ctx ends.
func oldWorker(ctx context.Context, t *testing.T, url string, count *importstest.Tally) {
	conn, err := redis.DialURL(url)
	assert.Equal(t, err, nil)
	defer conn.Close()
	for ticker := time.NewTicker(50 * time.Millisecond); ; {
		due, err := redis.Strings(popDue.Do(conn, "delayed", float64(time.Now().UnixMilli())/1000))
		assert.Equal(t, err, nil)
		for _, member := range due {
			count.Add(member, "worker")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// fill adds jobs to the set delayed, which are due evenly within a time.
func fill(t *testing.T, url string, jobs int, within time.Duration) {
	t.Helper()
	conn, err := redis.DialURL(url)
	assert.NoError(t, err)
	defer conn.Close()
	now := time.Now()
	for from := 0; from < jobs; from += 1000 {
		args := []any{"delayed"}
		for i := from; i < from+1000; i++ {
			due := now.Add(within * time.Duration(i*7919%jobs) / time.Duration(jobs))
			args = append(args, float64(due.UnixMilli())/1000, fmt.Sprint("job-", i))
		}
		_, err := conn.Do("ZADD", args...)
		assert.NoError(t, err)
	}
}

// TestRedisServerMove moves 100,000 jobs, or a million in the long form, out of a Redis whose worker goes on, into a
// cluster whose consumer works. The import is killed in the middle, and run again. Each job runs once.
func TestRedisServerMove(t *testing.T) {
	jobs, within := 100_000, 30*time.Second
	if gated.Has(gated.Long) {
		jobs, within = 1_000_000, 4*time.Minute
	}
	r := startRedis(t)
	b := importstest.Start(t, 3)
	var count importstest.Tally
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	fill(t, r.url, jobs, within)
	work.Go(func() { oldWorker(ctx, t, r.url, &count) })
	work.Go(func() {
		o := client.ConsumeOptions{Concurrency: 1000}
		assert.Equal(t, b.Consume(ctx, "jobs", o, func(_ context.Context, task *client.Leased) error {
			count.Add(string(task.PayloadBytes), "consumer")
			return nil
		}), nil)
	})
	size := func(key string) int {
		n, err := redis.Int(r.ask("ZCARD", key), nil)
		assert.NoError(t, err)
		return n
	}
	began := time.Now()
	first := b.Command("redis", r.url, "delayed", "--queue", "jobs", "--move")
	assert.NoError(t, first.Start())
	importstest.Await(t, func() error {
		if n := size("belfry-import:delayed"); n == 0 || size("delayed") > jobs*2/3 {
			return fmt.Errorf("%d jobs are claimed", n)
		}
		return nil
	})
	assert.NoError(t, first.Process.Kill())
	assert.Error(t, first.Wait())
	t.Logf("killed with %d jobs claimed and %d waiting", size("belfry-import:delayed"), size("delayed"))
	_, code := b.Import("redis", r.url, "delayed", "--queue", "jobs", "--move")
	assert.Equal(t, code, 0, "exit status")
	t.Logf("%d jobs, imported in %v", jobs, time.Since(began).Round(time.Second))
	assert.EqualSlices(t, r.keys("*"), nil)
	importstest.Await(t, func() error { return count.Complete(jobs) })
	importstest.Await(t, func() error {
		q, err := b.Queue(t.Context(), "jobs")
		if err == nil && q.Counts.Unfinished() > 0 {
			err = fmt.Errorf("%+v", q.Counts)
		}
		return err
	})
	stop()
	work.Wait()
	count.Check(t, jobs)
}
