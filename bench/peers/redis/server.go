package redis

import (
	"context"
	"errors"
	"net"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/bench/peers/installed"
	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

// Fsync is the server's setting appendfsync: when the append-only file is synced to disk.
type Fsync string

// Values of Fsync in use.
const (
	Always      Fsync = "always"
	EverySecond Fsync = "everysec"
)

const program = "redis-server"

// redisSubject returns Redis with the callers that the function makes on the client that they share.
func redisSubject(
	name string, fsync Fsync, open func(client *goredis.Client) (subject.Caller, error), options ...string,
) subject.Subject {
	promise := subject.Promise{Nodes: 1, Fsync: subject.FsyncEachSecond}
	if fsync == Always {
		promise.Fsync = subject.FsyncEachWrite
	}
	return subject.Subject{
		Name: name, Promise: promise, Need: func() error { return installed.Debian(program) },
		Start: func(ctx context.Context, dir string) (subject.Service, error) {
			s := &service{open: open}
			return s, s.start(ctx, dir, fsync, options)
		},
	}
}

// service is a running redis-server, and what all callers share.
type service struct {
	*subject.Process
	addr string
	open func(client *goredis.Client) (subject.Caller, error)

	client *goredis.Client // of shared; nil: there is no caller yet
	shared subject.Caller
}

// start runs a server on a folder, with an append-only file and without snapshots.
func (s *service) start(ctx context.Context, dir string, fsync Fsync, options []string) error {
	addrs, err := local.FreeAddrs(1)
	if err != nil {
		return err
	}
	s.addr = addrs[0]
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	s.Process, err = subject.Run(ctx, subject.Command{
		Args: append([]string{
			program, "--bind", host, "--port", port, "--dir", dir,
			"--appendonly", "yes", "--appendfsync", string(fsync), "--save", "",
		}, options...),
		Dir: dir, Ready: s.ready,
	})
	return err
}

// ready returns an error until the server answers a ping. A server that still loads its file answers with an error.
func (s *service) ready(ctx context.Context) error {
	client := s.connect()
	return errors.Join(client.Ping(ctx).Err(), client.Close())
}

// connect returns a client with the library's defaults, but without handshakes for features of other servers.
func (s *service) connect() *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: s.addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

func (s *service) Caller(ctx context.Context) (subject.Caller, error) {
	if s.client == nil {
		client := s.connect()
		shared, err := s.open(client)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		s.client, s.shared = client, shared
	}
	return s.shared, s.client.Ping(ctx).Err()
}

func (s *service) disconnect() error {
	if s.client == nil {
		return nil
	}
	err := s.client.Close() // closes its pipe too
	s.client = nil
	return err
}

// Restart closes the shared connection. Callers of before are closed and made anew.
func (s *service) Restart(ctx context.Context) error {
	if err := s.disconnect(); err != nil {
		return err
	}
	return s.Process.Restart(ctx)
}

func (s *service) Stop() error { return errors.Join(s.disconnect(), s.Process.Stop()) }
