//go:build linux

package broker

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// wantServer skips a test unless BELFRY_TEST_BROKERS, a list with commas, has the server's name: `make test-brokers`.
func wantServer(t testing.TB, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_BROKERS"), ","), name) {
		t.Skipf("BELFRY_TEST_BROKERS does not name %s: make test-brokers", name)
	}
}

// process is a server that can be killed and started again in the same folder.
type process struct {
	t       testing.TB
	command func() *exec.Cmd
	ready   string // what it prints when it serves

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	said []string
}

const startTime = time.Minute

// startProcess returns when the server serves, and stops it with the test.
func startProcess(t testing.TB, ready string, command func() *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, command: command, ready: ready}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the server said:\n%s", strings.Join(p.last(60), "\n"))
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.cmd = p.command()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	serving, done := make(chan struct{}), make(chan struct{})
	p.done = done
	go p.read(out, serving)
	go func(cmd *exec.Cmd) {
		defer close(done)
		_ = cmd.Wait() // it is killed: what it returns says nothing
		in.Close()
	}(p.cmd)
	select {
	case <-serving:
	case <-done:
		p.t.Fatalf("the server ended:\n%s", strings.Join(p.last(60), "\n"))
	case <-time.After(startTime):
		p.t.Fatalf("the server is not ready after %v:\n%s", startTime, strings.Join(p.last(60), "\n"))
	}
}

func (p *process) read(out io.Reader, serving chan<- struct{}) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.said = append(p.said, lines.Text())
		p.mu.Unlock()
		if serving != nil && strings.Contains(lines.Text(), p.ready) {
			close(serving)
			serving = nil
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line too long for the scanner is no reason to stop the server
}

func (p *process) last(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said[max(0, len(p.said)-n):])
}

// kill ends the server as a crash would, with what it has started.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
	<-p.done
}

func (p *process) restart() {
	p.kill()
	p.start()
}
