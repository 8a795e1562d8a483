package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/belfryhq/belfry/bench/peers/redisserver"
	"github.com/belfryhq/belfry/bench/subject"
)

// connection is the client that all callers share. Its pipe sends what callers ask at the same time as one pipeline.
type connection struct {
	client *goredis.Client
	pipe   *goredis.AutoPipeliner // deferred: a command is under way when its method returns, and done when it is asked
}

// Close leaves the connection to the other callers.
func (*connection) Close() error { return nil }

// service is a server and its callers' connection.
type service struct {
	*redisserver.Server
	caller func(c *connection) (subject.Caller, error)

	shared *connection // nil until a caller wants it
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
	err := s.shared.client.Close() // the pipe with it
	s.shared = nil
	return err
}

// Restart leaves the old connections to the callers that have them: they are closed and made anew.
func (s *service) Restart(context.Context) error {
	if err := s.disconnect(); err != nil {
		return err
	}
	return s.Server.Restart()
}

func (s *service) Stop() error { return errors.Join(s.disconnect(), s.Server.Stop()) }
