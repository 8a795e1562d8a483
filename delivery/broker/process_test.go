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

// wantServer skips a test unless BELFRY_TEST_BROKERS, a list with commas, contains the server's name. `make
// test-brokers` sets it.
func wantServer(t testing.TB, name string) {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("BELFRY_TEST_BROKERS"), ","), name) {
		t.Skipf("BELFRY_TEST_BROKERS does not name %s: make test-brokers", name)
	}
}

// process is a server that can be killed and restarted in the same folder.
type process struct {
	t       testing.TB
	command func() *exec.Cmd
	ready   string // the server prints it when it serves

	cmd  *exec.Cmd
	done chan struct{} // closed when the server has ended

	mu     sync.Mutex
	output []string
}

// startTime is many times as long as the slowest server needs on two free processors, 8 s: other load of the machine may
// leave a server almost no processor time.
const startTime = 5 * time.Minute

// startProcess starts a server and returns when the server serves. The server stops at the end of the test.
func startProcess(t testing.TB, ready string, command func() *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, command: command, ready: ready}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the server said:\n%s", strings.Join(p.last(60), "\n"))
		}
	})
	p.start()
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
		_ = cmd.Wait() // it was killed: its error has no meaning
		in.Close()
	}(p.cmd)
	select {
	case <-serving:
	case <-done:
		p.t.Fatal("the server ended before it served")
	case <-time.After(startTime):
		p.t.Fatalf("the server is not ready after %v", startTime)
	}
}

func (p *process) read(out io.Reader, serving chan<- struct{}) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		p.mu.Lock()
		p.output = append(p.output, lines.Text())
		p.mu.Unlock()
		if serving != nil && strings.Contains(lines.Text(), p.ready) {
			close(serving)
			serving = nil
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line too long for the scanner must not stop the server
}

func (p *process) last(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.output[max(0, len(p.output)-n):])
}

// kill ends the server and its child processes as a crash would. A server that never began has nothing to end.
func (p *process) kill() {
	if p.cmd.Process == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the server may have ended by itself
	<-p.done
}

func (p *process) restart() {
	p.kill()
	p.start()
}
