// Package redisserver runs a redis-server of Debian's for the peers that are built on one.
package redisserver

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

// Fsync is the server's setting of that name: when its append-only file is on the disk.
type Fsync string

// The two settings that are in use.
const (
	Always      Fsync = "always"
	EverySecond Fsync = "everysec"
)

// Promise is what an acknowledgement is worth.
func (f Fsync) Promise() subject.Promise {
	when := subject.FsyncEachSecond
	if f == Always {
		when = subject.FsyncEachWrite
	}
	return subject.Promise{Nodes: 1, Fsync: when}
}

const program = "redis-server"

// Missing says how to get the server if it is not there.
func Missing() string {
	if _, err := exec.LookPath(program); err != nil {
		return "redis-server (Debian's package of that name; make bench-peers)"
	}
	return ""
}

// Server is one that runs.
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

// ready: one that still reads its file answers that it does.
func (s *Server) ready(ctx context.Context) error {
	client := s.Client()
	return errors.Join(client.Ping(ctx).Err(), client.Close())
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.addr }

// Client is the client library's with its defaults, but for handshakes with what only other servers offer.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.addr, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// PIDs is that of its process, if it runs.
func (s *Server) PIDs() []int { return s.process.PIDs() }

// KillAll kills it.
func (s *Server) KillAll() error { return s.process.Kill() }

// Restart starts it again on the same data.
func (s *Server) Restart() error { return s.process.Launch() }

// Stop stops it.
func (s *Server) Stop() error { return s.process.Stop(syscall.SIGTERM) }
