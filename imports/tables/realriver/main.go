// Realriver uses the River library beside an import, for tests. It is a module of its own, so that Belfry does not
// depend on River.
//
//	write   makes River's tables, schedules jobs, and prints each as JSON
//	fill    schedules 1,000 jobs that are due within ten seconds
//	work    runs jobs until an interrupt, and prints the name of each
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const queue = "mails"

// Mail is a job.
type Mail struct {
	Name string `json:"name"`
}

// Kind implements river.JobArgs.
func (Mail) Kind() string { return "mail" }

// worker prints jobs, and fails the one with the name "failing".
type worker struct {
	river.WorkerDefaults[Mail]
	failed chan struct{}
}

// Work implements river.Worker.
func (w *worker) Work(_ context.Context, job *river.Job[Mail]) error {
	if job.Args.Name == "failing" {
		close(w.failed)
		return errors.New("on purpose")
	}
	_, err := fmt.Println(job.Args.Name)
	return err
}

// NextRetry implements river.Worker.
func (w *worker) NextRetry(*river.Job[Mail]) time.Time { return time.Now().Add(time.Hour) }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return errors.New("usage: realriver write|fill|work URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Args[2])
	if err != nil {
		return err
	}
	defer pool.Close()
	w := &worker{failed: make(chan struct{})}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{queue: {MaxWorkers: 10}}, Workers: workers,
		FetchPollInterval: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	switch os.Args[1] {
	case "write":
		return write(ctx, c, w)
	case "fill":
		return fill(ctx, c)
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return c.Stop(context.Background())
}

// written is a job as the test expects it in Belfry.
type written struct {
	ID       string `json:"id"`
	Due      int64  `json:"due"`
	Queue    string `json:"queue"`
	Type     string `json:"type"`
	Payload  string `json:"payload"`
	Attempts int    `json:"attempts"`
}

func show(id int64, due time.Time, name string, attempts int) error {
	return json.NewEncoder(os.Stdout).Encode(written{
		ID: fmt.Sprint("river:", id), Due: due.Add(time.Millisecond - time.Nanosecond).UnixMilli(), Queue: queue,
		Type: "mail", Payload: fmt.Sprintf(`{"name": %q}`, name), Attempts: attempts,
	})
}

func write(ctx context.Context, c *river.Client[pgx.Tx], w *worker) error {
	due := time.Now().Add(time.Hour)
	var jobs []river.InsertManyParams
	for i := range 1200 {
		jobs = append(jobs, river.InsertManyParams{Args: Mail{fmt.Sprint("job-", i)}, InsertOpts: &river.InsertOpts{
			Queue: queue, ScheduledAt: due.Add(time.Duration(i) * time.Second), MaxAttempts: i%5 + 1,
		}})
	}
	results, err := c.InsertMany(ctx, jobs)
	if err != nil {
		return err
	}
	for i, result := range results {
		if err := show(result.Job.ID, result.Job.ScheduledAt, fmt.Sprint("job-", i), i%5+1); err != nil {
			return err
		}
	}
	return writeRetried(ctx, c, w)
}

// writeRetried lets a job fail, so that it waits for its retry.
func writeRetried(ctx context.Context, c *river.Client[pgx.Tx], w *worker) error {
	done, cancel := c.Subscribe(river.EventKindJobFailed)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return err
	}
	_, err := c.Insert(ctx, Mail{"failing"}, &river.InsertOpts{Queue: queue, MaxAttempts: 4})
	if err != nil {
		return err
	}
	<-w.failed
	failed := <-done
	if err := c.Stop(ctx); err != nil {
		return err
	}
	return show(failed.Job.ID, failed.Job.ScheduledAt, "failing", 3)
}

func fill(ctx context.Context, c *river.Client[pgx.Tx]) error {
	now := time.Now()
	var jobs []river.InsertManyParams
	for i := range 1000 {
		due := now.Add(10 * time.Second * time.Duration(i*7%1000) / 1000)
		jobs = append(jobs, river.InsertManyParams{
			Args: Mail{fmt.Sprint("job-", i)}, InsertOpts: &river.InsertOpts{Queue: queue, ScheduledAt: due},
		})
	}
	_, err := c.InsertMany(ctx, jobs)
	return err
}
