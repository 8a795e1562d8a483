package subject

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/deploy/child"
)

// Command says how a server is run.
type Command struct {
	Args []string // the program and its arguments
	Env  []string // variables beside this process's own, as NAME=value
	Dir  string   // its working folder, where its output is kept in <program>.log

	// Ready asks whether it answers; the error says what is wrong. nil: it is not waited for.
	Ready func(ctx context.Context) error
}

// Process is a server that runs as a child of this program and ends with it, together with what it started itself.
// Its methods are not called concurrently.
type Process struct {
	command Command
	child   *child.Child
}

// Run starts a server and returns when it is ready; with the end of its log if it dies before.
func Run(ctx context.Context, command Command) (*Process, error) {
	p := &Process{command: command}
	return p, p.Start(ctx)
}

// Start starts it again after Kill or Stop, and returns when it is ready.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	if err := p.await(ctx); err != nil {
		return errors.Join(err, p.Kill())
	}
	return nil
}

// Launch starts it again after Kill or Stop, and waits for nothing.
func (p *Process) Launch() error {
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

// Log is the file that holds its output.
func (p *Process) Log() string { return filepath.Join(p.command.Dir, p.program()+".log") }

// PIDs are those of the running process: one or none.
func (p *Process) PIDs() []int {
	if p.child == nil || p.child.Ended() {
		return nil
	}
	return []int{p.child.PID()}
}

// Kill ends it and its group with SIGKILL and returns when it is gone. One that does not run is gone already.
func (p *Process) Kill() error {
	if p.child == nil {
		return nil
	}
	err := p.child.SignalGroup(syscall.SIGKILL)
	<-p.child.Done()
	return err
}

// stopGrace is how long Stop lets a server stop by itself.
const stopGrace = 10 * time.Second

// Stop asks it to stop, with the signal of its liking, and kills it and its group if it has not within the grace.
func (p *Process) Stop(with syscall.Signal) error {
	if p.child == nil {
		return nil
	}
	if err := p.child.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.child.Done():
	case <-grace.C:
	}
	return p.Kill() // also what it left behind
}

// Answers is a [Command]'s Ready for a server that is ready once it listens.
func Answers(addr string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
