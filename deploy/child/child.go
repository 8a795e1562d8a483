package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// Config describes a child.
type Config struct {
	Command []string // the program and its arguments
	Env     []string // whole environment, as NAME=value; nil: this process's
	Dir     string   // working folder; empty: this process's
	Log     string   // path of the file that the output is appended to
}

// Child is one run of a process. It is safe for concurrent use.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // read it after done is closed
}

// Start starts a child.
func Start(cfg Config) (*Child, error) {
	log, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env, cmd.Dir = cfg.Env, cfg.Dir
	cmd.SysProcAttr = attr()
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cfg.Command[0], err)
	}
	return c, nil
}

// run starts the child and waits for it, on a thread of its own. Linux sends the signal of the parent's death when the
// thread that started the child ends, and the Go runtime may end threads at any time.
func (c *Child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.err = c.cmd.Wait()
	close(c.done)
}

// PID returns the child's process id, which is also the id of its process group.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Ended reports whether the child has ended.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Err returns the error of the child's exit: nil for exit status 0. Call it only after Done is closed.
func (c *Child) Err() error { return c.err }

// Signal sends the child a signal. It returns os.ErrProcessDone if the child has ended.
func (c *Child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// SignalGroup sends a signal to the child and to its descendants in the same group. An empty group is no error.
func (c *Child) SignalGroup(sig syscall.Signal) error {
	if err := syscall.Kill(-c.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling the group of process %d: %w", c.PID(), err)
	}
	return nil
}

const tailBytes = 2 << 10

// LogTail returns the last 2 KiB of a log file, to show why a child died. It returns the error's text if the file
// cannot be read.
func LogTail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(data) > tailBytes {
		data = data[len(data)-tailBytes:]
	}
	return strings.TrimSpace(string(data))
}
