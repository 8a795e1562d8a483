package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// process is one life of a node.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; to be read after done
	gone chan struct{} // closed when the cluster has taken note of it: the node may be started again
}

// startProcess starts a child with further variables, whose output goes to the end of the log file.
func startProcess(command, env []string, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(childEnv(os.Environ()), env...)
	cmd.SysProcAttr = childAttr()
	p := &process{cmd: cmd, done: make(chan struct{}), gone: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", command[0], err)
	}
	return p, nil
}

// run starts the child and waits for it on a thread of its own: Linux sends the signal of the parent's death when the
// thread that started the child ends, and Go ends threads as it likes.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// childEnv keeps Belfry's own variables from the children: those of this program mean this program, and what a node
// is to be told stands in its arguments.
func childEnv(env []string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, "BELFRY_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func writePID(dir string, pid int) error {
	return os.WriteFile(pidPath(dir), []byte(strconv.Itoa(pid)+"\n"), 0o644)
}

func pidPath(dir string) string { return filepath.Join(dir, "belfry.pid") }
func logPath(dir string) string { return filepath.Join(dir, "belfry.log") }

const tailBytes = 2 << 10

// logTail is the end of a node's log, to show why it died.
func logTail(dir string) string {
	data, err := os.ReadFile(logPath(dir))
	if err != nil {
		return err.Error()
	}
	if len(data) > tailBytes {
		data = data[len(data)-tailBytes:]
	}
	return strings.TrimSpace(string(data))
}
