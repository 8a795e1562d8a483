package redis

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports/importstest"
	"github.com/belfryhq/belfry/internal/assert"
)

// written is a job as its library has stored it.
type written struct {
	ID       string `json:"id"` // of the task in Belfry
	Due      int64  `json:"due"`
	Queue    string `json:"queue"`
	Type     string `json:"type"`
	Payload  string `json:"payload"`
	Attempts int    `json:"attempts"`
	Refused  bool   `json:"refused"` // no task can be made of the job
}

// checkLibrary lets a library write jobs, copies them and moves them, and compares the tasks. At the end the Redis has
// only the refused jobs.
func checkLibrary(t *testing.T, r *redisServer, writer []string, args ...string) *importstest.Belfry {
	t.Helper()
	b := importstest.Start(t, 1)
	cmd := exec.CommandContext(t.Context(), writer[0], append(writer[1:], r.url)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	assert.NoError(t, err, "%v", cmd)
	var jobs []written
	refused := 0
	for line := range strings.Lines(string(out)) {
		var job written
		assert.NoError(t, json.Unmarshal([]byte(line), &job), "%s", line)
		jobs = append(jobs, job)
		if job.Refused {
			refused++
		}
	}
	n, code := len(jobs), min(refused, 1)
	check := func(want string, more ...string) {
		t.Helper()
		got, status := b.Import(append(args, more...)...)
		assert.Equal(t, got, want)
		assert.Equal(t, status, code, "exit status")
	}
	check(importstest.Sums(n, n-refused, 0, 0, 0, refused, n-refused))
	check(importstest.Sums(n, 0, n-refused, 0, 0, refused, n-refused), "--move")
	check(importstest.Sums(refused, 0, 0, 0, 0, refused, 0), "--move")
	for _, job := range jobs {
		task, err := b.Get(t.Context(), job.ID)
		if job.Refused {
			assert.ErrorIs(t, err, client.ErrNotFound, "%s", job.ID)
			continue
		}
		assert.NoError(t, err, "%s", job.ID)
		is := written{
			ID: task.ID, Due: task.FireAt.UnixMilli(), Queue: task.Queue, Type: task.Labels["type"],
			Payload: string(task.Payload) + string(task.PayloadBytes), Attempts: task.Retry.MaxAttempts,
		}
		assert.Equal(t, is, job)
	}
	return b
}

// realasynq returns the path of the program that uses asynq.
func realasynq() string { return os.Getenv("BELFRY_REAL_ASYNQ") }

func TestAsynqServer(t *testing.T) {
	importstest.Need(t, "asynq")
	r := startRedis(t)
	checkLibrary(t, r, []string{realasynq(), "write"}, "asynq", r.url)
	for _, key := range r.keys("asynq:*:t:*") {
		if !strings.HasSuffix(key, ":t:headed") {
			t.Errorf("%s is left", key)
		}
	}
	assert.EqualSlices(t, r.keys("*unique*"), nil)
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)
}

// A real worker of asynq and a consumer of Belfry share the jobs while they are moved: each runs once.
func TestAsynqServerMovesBesideAWorker(t *testing.T) {
	importstest.Need(t, "asynq")
	r := startRedis(t)
	b := importstest.Start(t, 1)
	var count tally
	ctx, stop := context.WithCancel(t.Context())
	worker := exec.CommandContext(ctx, realasynq(), "work", r.url)
	out, err := worker.StdoutPipe()
	assert.NoError(t, err)
	worker.Stderr = os.Stderr
	worker.Cancel = func() error { return worker.Process.Signal(os.Interrupt) }
	assert.NoError(t, worker.Start())
	var work sync.WaitGroup
	work.Go(func() { count.lines(out, "worker") })
	work.Go(func() {
		assert.Equal(t, b.Consume(ctx, "mails", client.ConsumeOptions{}, func(_ context.Context, task *client.Leased) error {
			count.add(string(task.PayloadBytes), "consumer")
			return nil
		}), nil)
	})
	const jobs = 3000
	fill := exec.CommandContext(t.Context(), realasynq(), "fill", r.url)
	fill.Stderr = os.Stderr
	assert.NoError(t, fill.Run())
	_, code := b.Import("asynq", r.url, "--move", "--per-second", "500")
	assert.Equal(t, code, 0, "exit status")
	importstest.Await(t, func() error { return count.complete(jobs) })
	stop()
	work.Wait()
	_ = worker.Wait() // it was interrupted
	count.check(t, jobs)
}

func TestBullMQServer(t *testing.T) {
	importstest.Need(t, "bullmq")
	r := startRedis(t)
	checkLibrary(t, r, []string{"node", "realbullmq/write.mjs"}, "bullmq", r.url, "mails", "jobs:reports")
	for _, key := range append(r.keys("bull:mails:[0-9]*"), r.keys("jobs:reports:[0-9]*")...) {
		if r.ask("HGET", key, "parentKey") == nil {
			t.Errorf("%s is left", key)
		}
	}
	assert.EqualSlices(t, r.keys("*:de:*"), nil)
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)
}

func TestSidekiqServer(t *testing.T) {
	importstest.Need(t, "sidekiq")
	r := startRedis(t)
	checkLibrary(t, r, []string{"ruby", "realsidekiq/write.rb"}, "sidekiq", r.url)
	assert.EqualSlices(t, r.keys("schedule"), nil)
	assert.EqualSlices(t, r.keys("belfry-import:*"), nil)
}

// lines adds each line of a worker's output.
func (c *tally) lines(out io.Reader, by string) {
	for in := bufio.NewScanner(out); in.Scan(); {
		c.add(in.Text(), by)
	}
}
