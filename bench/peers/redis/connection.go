package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/peers/redisserver"
	"github.com/belfryhq/belfry/bench/subject"
)

// connection is the client that all callers share. Its pipe sends concurrent commands as one pipeline.
type connection struct {
	client *goredis.Client
	pipe   *goredis.AutoPipeliner // a command's method returns before its answer; reading the result waits for it
}

// Close leaves the shared connection open.
func (*connection) Close() error { return nil }

// service is a server and the callers' connection.
type service struct {
	*redisserver.Server
	caller func(c *connection) (subject.Caller, error)

	shared *connection // nil until the first caller
}

func (s *service) Caller(ctx context.Context) (subject.Caller, error) {
	if s.shared == nil {
		client := s.Client()
		pipe, err := client.AsyncAutoPipeline()
		if err != nil {
			return nil, err
		}
		s.shared = &connection{client, pipe}
	}
	if err := s.shared.client.Ping(ctx).Err(); err != nil {
		return nil, err
	}
	return s.caller(s.shared)
}

func (s *service) disconnect() error {
	if s.shared == nil {
		return nil
	}
	err := s.shared.client.Close() // closes the pipe too
	s.shared = nil
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
