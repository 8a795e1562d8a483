package asynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/peers/redisserver"
	"github.com/belfryhq/belfry/bench/subject"
)

const (
	taskType = "bench"
	queue    = "default"
)

// Subject returns asynq with its defaults.
func Subject() subject.Subject {
	const fsync = redisserver.EverySecond
	return subject.Subject{
		Name: "asynq, Redis " + string(fsync), Promise: fsync.Promise(), Need: redisserver.Need, Start: start,
	}
}

func start(ctx context.Context, dir string) (subject.Service, error) {
	server, err := redisserver.Start(ctx, dir, redisserver.EverySecond)
	if err != nil {
		return nil, err
	}
	return &service{Server: server}, nil
}

// service is a Redis server and the asynq client of all callers, which is safe for concurrent use.
type service struct {
	*redisserver.Server
	client *redis.Client // nil until the first caller
	shared *caller
}

func (s *service) Caller(context.Context) (subject.Caller, error) {
	if s.client == nil {
		client := s.Client()
		pipe, err := client.AutoPipeline()
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		s.client = client
		s.shared = &caller{
			client: asynq.NewClientFromRedisClient(pipe), inspector: asynq.NewInspectorFromRedisClient(pipe),
			redis: asynq.RedisClientOpt{Addr: s.Addr()},
		}
	}
	return s.shared, s.shared.client.Ping()
}

func (s *service) disconnect() error {
	if s.client == nil {
		return nil
	}
	err := s.client.Close()
	s.client = nil
	return err
}

// Restart closes the shared connection. Callers of before are closed and made anew.
func (s *service) Restart(context.Context) error {
	if err := s.disconnect(); err != nil {
		return err
	}
	return s.Server.Restart()
}

func (s *service) Stop() error { return errors.Join(s.disconnect(), s.Server.Stop()) }

type caller struct {
	client    *asynq.Client
	inspector *asynq.Inspector
	redis     asynq.RedisClientOpt // address of the server
}

func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.client.EnqueueContext(ctx, asynq.NewTask(taskType, task.Payload), asynq.TaskID(task.ID),
		asynq.ProcessAt(task.Due))
	return err
}

func (c *caller) Cancel(_ context.Context, id string) error { return c.inspector.DeleteTask(queue, id) }

// Consume runs an asynq server.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
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
func (*caller) Close() error { return nil }
