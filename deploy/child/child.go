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
	Env     []string // all of its environment, as NAME=value; nil: this process's
	Dir     string   // its working folder; empty: this process's
	Log     string   // the file to whose end its output goes
}

// Child is one life of a process. It is safe for concurrent use.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // to be read after done
}

// Start starts a child.
func Start(cfg Config) (*Child, error) {
	log, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
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

// run starts the child and waits for it on a thread of its own: Linux sends the signal of the parent's death when the
// thread that started the child ends, and Go ends threads as it likes.
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

// PID is its process id, which is also that of its process group.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Done is closed when it has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Ended tells whether it has.
func (c *Child) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Err is how it ended: nil with exit status 0. It is to be asked after Done.
func (c *Child) Err() error { return c.err }

// Signal sends it a signal; os.ErrProcessDone if it has ended.
func (c *Child) Signal(sig os.Signal) error { return c.cmd.Process.Signal(sig) }

// SignalGroup sends a signal to it and to all that it started and that stayed in its group. That nobody is left there
// is no error.
func (c *Child) SignalGroup(sig syscall.Signal) error {
	if err := syscall.Kill(-c.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling the group of process %d: %w", c.PID(), err)
	}
	return nil
}

const tailBytes = 2 << 10

// LogTail is the end of a log file, to show why a child died.
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
