package redis

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/subject"
)

const (
	taskType = "bench"
	queue    = "default"
)

// Asynq returns asynq with its defaults.
func Asynq() subject.Subject {
	return redisSubject("asynq, Redis "+string(EverySecond), EverySecond, openAsynq)
}

func openAsynq(client *goredis.Client) (subject.Caller, error) {
	pipe, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	c := &asynqCaller{
		client: asynq.NewClientFromRedisClient(pipe), inspector: asynq.NewInspectorFromRedisClient(pipe),
		redis: asynq.RedisClientOpt{Addr: client.Options().Addr},
	}
	return c, c.client.Ping()
}

// asynqCaller is the asynq client of all callers, which is safe for concurrent use.
type asynqCaller struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	redis     asynq.RedisClientOpt // address of the server
}

func (c *asynqCaller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.client.EnqueueContext(ctx, asynq.NewTask(taskType, task.Payload), asynq.TaskID(task.ID),
		asynq.ProcessAt(task.Due))
	return err
}

func (c *asynqCaller) Cancel(_ context.Context, id string) error {
	return c.inspector.DeleteTask(queue, id)
}

// Consume runs an asynq server.
func (c *asynqCaller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	server := asynq.NewServer(c.redis, asynq.Config{LogLevel: asynq.ErrorLevel})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		at := time.Now()
		id, ok := asynq.GetTaskID(ctx)
		if !ok {
			return errors.New("a task without an id")
		}
		got(id, at)
		return nil
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// Close leaves the shared client open.
func (*asynqCaller) Close() error { return nil }
