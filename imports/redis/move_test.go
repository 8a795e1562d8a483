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

// tally counts who ran each job. It is safe for concurrent use.
type tally struct {
	mu   sync.Mutex
	runs map[string][]string
	by   map[string]int
}

func (c *tally) add(job, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs, c.by = map[string][]string{}, map[string]int{}
	}
	c.runs[job] = append(c.runs[job], by)
	c.by[by]++
}

// complete returns an error until this number of jobs has run.
func (c *tally) complete(jobs int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) < jobs {
		return fmt.Errorf("%d of %d jobs have run: %v", len(c.runs), jobs, c.by)
	}
	return nil
}

// check checks that each job has run once, and that both sides worked.
func (c *tally) check(t *testing.T, jobs int) {
	t.Helper()
	for job, by := range c.runs {
		if len(by) != 1 {
			t.Errorf("%s ran %d times: %v", job, len(by), by)
		}
	}
	assert.Equal(t, len(c.runs), jobs, "jobs")
	if c.by["worker"] == 0 || c.by["consumer"] == 0 {
		t.Errorf("one side was idle: %v", c.by)
	}
	t.Logf("%v", c.by)
}

// popDue is how a worker of the old program takes due members.
var popDue = redis.NewScript(1, `
	local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1000)
	if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
	return due`)

// oldWorker runs due members of the set delayed until ctx ends.
func oldWorker(ctx context.Context, t *testing.T, url string, count *tally) {
	conn, err := redis.DialURL(url)
	assert.Equal(t, err, nil)
	defer conn.Close()
	for ticker := time.NewTicker(50 * time.Millisecond); ; {
		due, err := redis.Strings(popDue.Do(conn, "delayed", float64(time.Now().UnixMilli())/1000))
		assert.Equal(t, err, nil)
		for _, member := range due {
			count.add(member, "worker")
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
	var count tally
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	fill(t, r.url, jobs, within)
	work.Go(func() { oldWorker(ctx, t, r.url, &count) })
	work.Go(func() {
		o := client.ConsumeOptions{Concurrency: 1000}
		assert.Equal(t, b.Consume(ctx, "jobs", o, func(_ context.Context, task *client.Leased) error {
			count.add(string(task.PayloadBytes), "consumer")
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
	importstest.Await(t, func() error { return count.complete(jobs) })
	importstest.Await(t, func() error {
		q, err := b.Queue(t.Context(), "jobs")
		if err == nil && q.Counts.Unfinished() > 0 {
			err = fmt.Errorf("%+v", q.Counts)
		}
		return err
	})
	stop()
	work.Wait()
	count.check(t, jobs)
}
