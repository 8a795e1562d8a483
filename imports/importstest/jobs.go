package importstest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// written is a job as its library has stored it, and the task or the schedule that an import makes of it.
type written struct {
	ID       string `json:"id"`
	Due      int64  `json:"due"`    // Unix milliseconds; of a schedule: of the first occurrence
	Repeat   string `json:"repeat"` // cron expression and time zone, or interval and count, of a schedule; empty: a task
	Queue    string `json:"queue"`
	Type     string `json:"type"`
	Payload  string `json:"payload"`  // empty: not compared
	Attempts int    `json:"attempts"` // 0: those of the queue
	Refused  bool   `json:"refused"`  // no task can be made of the job
}

// CheckLibrary lets a library write jobs, which it prints as lines of JSON. It copies them and moves them by `belfry
// import` with these arguments, and compares the tasks. At the end the source has only the refused jobs.
func (b *Belfry) CheckLibrary(writer *exec.Cmd, args ...string) {
	t := b.t
	t.Helper()
	writer.Stderr = os.Stderr
	out, err := writer.Output()
	assert.NoError(t, err, "%v", writer)
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
	check(Sums(n, n-refused, 0, 0, 0, refused, n-refused))
	check(Sums(n, 0, n-refused, 0, 0, refused, n-refused), "--move")
	check(Sums(refused, 0, 0, 0, 0, refused, 0), "--move")
	for _, job := range jobs {
		found, err := b.find(job)
		if job.Refused {
			assert.ErrorIs(t, err, client.ErrNotFound, "%s", job.ID)
			continue
		}
		assert.NoError(t, err, "%s", job.ID)
		assert.Equal(t, found, job)
	}
}

// find returns the task or the schedule of a job.
func (b *Belfry) find(job written) (found written, err error) {
	task := &client.Task{}
	if job.Repeat == "" {
		if task, err = b.Get(b.t.Context(), job.ID); err != nil {
			return found, err
		}
		found = written{ID: task.ID, Due: task.FireAt.UnixMilli()}
	} else {
		s, err := b.GetSchedule(b.t.Context(), job.ID)
		if err != nil {
			return found, err
		}
		task, found = &s.Task, written{ID: s.ID, Due: s.Repeat.Start.UnixMilli()}
		found.Repeat = strings.Join(append(s.Repeat.Cron, s.Repeat.TimeZone, string(s.Overlap)), "/")
		if s.Repeat.Every != 0 {
			found.Repeat = fmt.Sprintf("%v/%d/%s", s.Repeat.Every, s.Repeat.Count, s.Overlap)
		}
	}
	found.Queue, found.Type = task.Queue, task.Labels["type"]
	if job.Payload != "" {
		found.Payload = string(task.Payload) + string(task.PayloadBytes)
	}
	if task.Retry != nil && job.Attempts > 0 {
		found.Attempts = task.Retry.MaxAttempts
	}
	return found, nil
}

// Tally counts who ran each job. It is safe for concurrent use.
type Tally struct {
	mu   sync.Mutex
	runs map[string][]string
	by   map[string]int
}

// Add counts a run of a job by "worker" or "consumer".
func (c *Tally) Add(job, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runs == nil {
		c.runs, c.by = map[string][]string{}, map[string]int{}
	}
	c.runs[job] = append(c.runs[job], by)
	c.by[by]++
}

// Complete returns an error until this number of jobs has run.
func (c *Tally) Complete(jobs int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) < jobs {
		return fmt.Errorf("%d of %d jobs have run: %v", len(c.runs), jobs, c.by)
	}
	return nil
}

// Check checks that each job has run once, and that both sides worked.
func (c *Tally) Check(t *testing.T, jobs int) {
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

// Lines adds each line of a worker's output.
func (c *Tally) Lines(out io.Reader, by string) {
	for in := bufio.NewScanner(out); in.Scan(); {
		c.Add(in.Text(), by)
	}
}

// Share lets a worker of the old scheduler, which prints the jobs that it runs, and a consumer of a queue of Belfry
// share jobs while fill adds them and move imports them. It checks that each job has run once, and that both worked.
// name returns the job of a task.
func (b *Belfry) Share(worker *exec.Cmd, queue string, jobs int, fill, move func(), name func(*client.Task) string) {
	t := b.t
	t.Helper()
	var count Tally
	out, err := worker.StdoutPipe()
	assert.NoError(t, err)
	worker.Stderr = os.Stderr
	assert.NoError(t, worker.Start())
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { count.Lines(out, "worker") })
	work.Go(func() {
		assert.Equal(t, b.Consume(ctx, queue, client.ConsumeOptions{}, func(_ context.Context, task *client.Leased) error {
			count.Add(name(&task.Task), "consumer")
			return nil
		}), nil)
	})
	fill()
	move()
	Await(t, func() error { return count.Complete(jobs) })
	stop()
	assert.NoError(t, worker.Process.Signal(os.Interrupt))
	work.Wait()
	_ = worker.Wait() // it was interrupted
	count.Check(t, jobs)
}
