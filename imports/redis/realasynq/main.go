// Realasynq uses the asynq library beside an import, for tests. It is a module of its own, so that Belfry does not
// depend on asynq.
//
//	write   schedules tasks of all kinds, and prints each as JSON
//	fill    schedules 3,000 tasks that are due within ten seconds
//	work    runs tasks until an interrupt, and prints the payload of each
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hibiken/asynq"
)

const (
	queue = "mails"
	kind  = "mail:welcome"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return errors.New("usage: realasynq write|fill|work URL")
	}
	to, err := asynq.ParseRedisURI(os.Args[2])
	if err != nil {
		return err
	}
	c := asynq.NewClient(to)
	defer func() { _ = c.Close() }() // the program ends
	switch os.Args[1] {
	case "write":
		return write(c, to)
	case "fill":
		return fill(c)
	}
	return newServer(to).Run(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		_, err := fmt.Println(string(task.Payload()))
		return err
	}))
}

// newServer returns a server of asynq that looks for due tasks often, and retries a task after an hour.
func newServer(to asynq.RedisConnOpt) *asynq.Server {
	return asynq.NewServer(to, asynq.Config{
		LogLevel: asynq.ErrorLevel, Queues: map[string]int{queue: 1, "retried": 1}, DelayedTaskCheckInterval: time.Second / 5,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
}

// written is a task as the test expects it in Belfry.
type written struct {
	ID       string `json:"id"`
	Due      int64  `json:"due"`
	Queue    string `json:"queue"`
	Type     string `json:"type"`
	Payload  string `json:"payload"`
	Attempts int    `json:"attempts"`
	Refused  bool   `json:"refused"`
}

func show(w written) error { return json.NewEncoder(os.Stdout).Encode(w) }

const scheduled = 2500 // more than a page of a source

func write(c *asynq.Client, to asynq.RedisConnOpt) error {
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	for i := range scheduled {
		payload := fmt.Sprintf(`{"n": %d}`, i)
		at := due.Add(time.Duration(i/100) * time.Second)
		options := []asynq.Option{asynq.Queue(queue), asynq.ProcessAt(at), asynq.MaxRetry(i % 30)}
		switch i % 5 {
		case 0:
			options = append(options, asynq.Unique(24*time.Hour))
		case 1:
			options = append(options, asynq.TaskID(fmt.Sprint("own-", i)))
		case 2:
			payload = fmt.Sprint("text ", i)
		}
		info, err := c.Enqueue(asynq.NewTask(kind, []byte(payload)), options...)
		if err != nil {
			return err
		}
		if err := show(of(info)); err != nil {
			return err
		}
	}
	headed := asynq.NewTaskWithHeaders(kind, nil, map[string]string{"trace": "x"})
	_, err := c.Enqueue(headed, asynq.Queue(queue), asynq.ProcessAt(due), asynq.TaskID("headed"))
	if err != nil {
		return err
	}
	if err := show(written{ID: "asynq:" + queue + ":headed", Refused: true}); err != nil {
		return err
	}
	return writeRetried(c, to)
}

func of(info *asynq.TaskInfo) written {
	return written{
		ID: "asynq:" + info.Queue + ":" + info.ID, Due: info.NextProcessAt.UnixMilli(), Queue: info.Queue, Type: info.Type,
		Payload: string(info.Payload), Attempts: info.MaxRetry + 1 - info.Retried,
	}
}

// writeRetried lets a task fail, so that it waits for its retry.
func writeRetried(c *asynq.Client, to asynq.RedisConnOpt) error {
	failed := make(chan struct{})
	server := newServer(to)
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		close(failed)
		return errors.New("on purpose")
	})
	if err := server.Start(handler); err != nil {
		return err
	}
	info, err := c.Enqueue(asynq.NewTask(kind, []byte("failed")), asynq.Queue("retried"), asynq.MaxRetry(5))
	if err != nil {
		return err
	}
	<-failed
	server.Shutdown()
	info, err = asynq.NewInspector(to).GetTaskInfo("retried", info.ID)
	if err != nil {
		return err
	}
	return show(of(info))
}

const (
	filled = 3000
	within = 10 * time.Second
)

func fill(c *asynq.Client) error {
	now := time.Now()
	for i := range filled {
		due := now.Add(within * time.Duration(i*7%filled) / filled)
		_, err := c.Enqueue(asynq.NewTask(kind, fmt.Append(nil, "job-", i)), asynq.Queue(queue), asynq.ProcessAt(due))
		if err != nil {
			return err
		}
	}
	return nil
}
