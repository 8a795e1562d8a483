package subject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/deploy/child"
)

// Command describes how to run a server.
type Command struct {
	Args []string // the program and its arguments
	Env  []string // variables beside this process's own, as NAME=value
	Dir  string   // working folder; it also gets the output, in <program>.log

	Stop syscall.Signal // asks the server to end; 0: SIGTERM

	// Ready returns nil when the server answers, else the reason. nil: Start does not wait.
	Ready func(ctx context.Context) error
}

// Process is a server that runs as a child of this program. The server and its own children end with this program. A
// [Service] of one process may embed it. The methods are not safe for concurrent use.
type Process struct {
	command Command
	child   *child.Child
}

// Run starts a server and returns when it is ready. The error includes the end of the log if the server dies before.
func Run(ctx context.Context, command Command) (*Process, error) {
	p := &Process{command: command}
	return p, p.Start(ctx)
}

// Start starts the server after KillAll or Stop, and returns when it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Restart(ctx); err != nil {
		return err
	}
	if err := p.await(ctx); err != nil {
		return errors.Join(err, p.KillAll())
	}
	return nil
}

// Restart starts the server after KillAll or Stop, and does not wait until it is ready.
func (p *Process) Restart(context.Context) error {
	if p.child != nil && !p.child.Ended() {
		return fmt.Errorf("%s runs already, with pid %d", p.program(), p.child.PID())
	}
	started, err := child.Start(child.Config{
		Command: p.command.Args, Env: append(os.Environ(), p.command.Env...), Dir: p.command.Dir, Log: p.Log(),
	})
	if err == nil {
		p.child = started
	}
	return err
}

const readyPoll = 10 * time.Millisecond

func (p *Process) await(ctx context.Context) error {
	if p.command.Ready == nil {
		return nil
	}
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		err := p.command.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.child.Done():
			return fmt.Errorf("%s died before it was ready: %s", p.program(), child.LogTail(p.Log()))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready (%w): %w; its log: %s", p.program(), ctx.Err(), err, child.LogTail(p.Log()))
		case <-poll.C:
		}
	}
}

func (p *Process) program() string { return filepath.Base(p.command.Args[0]) }

// Log returns the path of the server's output.
func (p *Process) Log() string { return filepath.Join(p.command.Dir, p.program()+".log") }

// PIDs returns the process id of the running server; nil if it does not run.
func (p *Process) PIDs() []int {
	if p.child == nil || p.child.Ended() {
		return nil
	}
	return []int{p.child.PID()}
}

// KillAll ends the server and its process group with SIGKILL, and returns when the server has ended. It does nothing to
// a server that never started.
func (p *Process) KillAll() error {
	if p.child == nil {
		return nil
	}
	err := p.child.SignalGroup(syscall.SIGKILL)
	<-p.child.Done()
	return err
}

// stopGrace is the time for a server to stop by itself.
const stopGrace = 10 * time.Second

// Stop asks the server to end, and waits up to stopGrace. Then it kills the process group.
func (p *Process) Stop() error {
	if p.child == nil {
		return nil
	}
	if err := p.child.Signal(cmp.Or(p.command.Stop, syscall.SIGTERM)); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.child.Done():
	case <-grace.C:
	}
	return p.KillAll() // the server's own children too
}

// URLs returns the URLs of servers by their addresses, host:port.
func URLs(scheme string, addrs []string) []string {
	urls := make([]string, len(addrs))
	for i, addr := range addrs {
		urls[i] = scheme + "://" + addr
	}
	return urls
}

// Group is the servers of a service of several nodes. A [Service] may embed it. The methods are not safe for concurrent
// use.
type Group []*Process

// PIDs returns the process ids of the running servers.
func (g Group) PIDs() []int {
	var pids []int
	for _, p := range g {
		pids = append(pids, p.PIDs()...)
	}
	return pids
}

// KillAll kills all servers at the same time.
func (g Group) KillAll() error { return g.each((*Process).KillAll) }

// Restart starts all servers after KillAll or Stop, and does not wait until they are ready.
func (g Group) Restart(ctx context.Context) error {
	return g.each(func(p *Process) error { return p.Restart(ctx) })
}

// Stop asks all servers at the same time to end, as [Process.Stop] does.
func (g Group) Stop() error { return g.each((*Process).Stop) }

// each returns when do has returned for all servers.
func (g Group) each(do func(p *Process) error) error {
	errs := make([]error, len(g))
	var all sync.WaitGroup
	for i, p := range g {
		all.Go(func() { errs[i] = do(p) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Answers returns a Ready for a [Command] whose server is ready once it accepts connections.
func Answers(addr string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Serve serves a handler on loopback. stop closes the server and its connections.
func Serve(ctx context.Context, handler http.Handler) (url string, stop func() error, err error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop = func() error {
		err := server.Close() // open requests need no answer any more
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return "http://" + listener.Addr().String() + "/", stop, nil
}
