package beanstalkd

import (
	"context"
	"net"
	"os/exec"
	"sync"
	"syscall"

	"github.com/beanstalkd/go-beanstalk"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/deploy/local"
)

const program = "beanstalkd"

type beanstalkdSubject struct{}

// Subject returns beanstalkd with an fsync for each write.
func Subject() subject.Subject { return beanstalkdSubject{} }

func (beanstalkdSubject) Name() string { return "beanstalkd -f0" }

func (beanstalkdSubject) Promise() subject.Promise {
	return subject.Promise{Nodes: 1, Fsync: subject.FsyncEachWrite}
}

func (beanstalkdSubject) Missing() string {
	if _, err := exec.LookPath(program); err != nil {
		return "beanstalkd (Debian's package of that name; make bench-peers)"
	}
	return ""
}

func (beanstalkdSubject) Start(ctx context.Context, dir string) (subject.Service, error) {
	addrs, err := local.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		return nil, err
	}
	process, err := subject.Run(ctx, subject.Command{
		Args: []string{program, "-l", host, "-p", port, "-b", dir, "-f0"}, Dir: dir, Ready: subject.Answers(addrs[0]),
	})
	if err != nil {
		return nil, err
	}
	return &service{process: process, addr: addrs[0], jobs: &sync.Map{}}, nil
}

type service struct {
	process *subject.Process
	addr    string
	jobs    *sync.Map // the server's job numbers, by task id
}

func (s *service) Caller(context.Context) (subject.Caller, error) {
	conn, err := beanstalk.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &caller{conn, s.addr, s.jobs}, nil
}

func (s *service) PIDs() []int                   { return s.process.PIDs() }
func (s *service) KillAll() error                { return s.process.Kill() }
func (s *service) Restart(context.Context) error { return s.process.Launch() }
func (s *service) Stop() error                   { return s.process.Stop(syscall.SIGTERM) }
