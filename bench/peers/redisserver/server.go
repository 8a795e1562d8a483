// Package redisserver runs Debian's redis-server for the peers that use Redis.
package redisserver

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
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

// Promise returns the durability of an acknowledgement.
func (f Fsync) Promise() subject.Promise {
	when := subject.FsyncEachSecond
	if f == Always {
		when = subject.FsyncEachWrite
	}
	return subject.Promise{Nodes: 1, Fsync: when}
}

const program = "redis-server"

// Need returns an error if the server is not installed.
func Need() error { return installed.Debian(program) }

// Server is a running redis-server.
type Server struct {
	process *subject.Process
	addr    string
}

// Start runs a server on a folder, with an append-only file and without snapshots.
func Start(ctx context.Context, dir string, fsync Fsync, options ...string) (*Server, error) {
	addrs, err := local.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	s := &Server{addr: addrs[0]}
	s.process, err = subject.Run(ctx, subject.Command{
		Args: append([]string{
			program, "--bind", host, "--port", port, "--dir", dir,
			"--appendonly", "yes", "--appendfsync", string(fsync), "--save", "",
		}, options...),
		Dir: dir, Ready: s.ready,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ready returns an error until the server answers a ping. A server that still loads its file answers with an error.
func (s *Server) ready(ctx context.Context) error {
	client := s.Client()
	return errors.Join(client.Ping(ctx).Err(), client.Close())
}

// Addr returns the server's address.
func (s *Server) Addr() string { return s.addr }

// Client returns a client with the library's defaults, but without handshakes for features of other servers.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// PIDs returns the process id of the running server; nil if it does not run.
func (s *Server) PIDs() []int { return s.process.PIDs() }

// KillAll kills the server.
func (s *Server) KillAll() error { return s.process.Kill() }

// Restart starts the server again on the same data.
func (s *Server) Restart() error { return s.process.Launch() }

// Stop stops the server.
func (s *Server) Stop() error { return s.process.Stop(syscall.SIGTERM) }
