package subject

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

// fileThere returns a Ready that succeeds once the child has made a file.
func fileThere(path string) func(context.Context) error {
	return func(context.Context) error {
		_, err := os.Stat(path)
		return err
	}
}

func run(t *testing.T, script string) *Process {
	t.Helper()
	dir := t.TempDir()
	p, err := Run(t.Context(), Command{
		Args: []string{"sh", "-c", script}, Env: []string{"GREETING=hello"}, Dir: dir, Ready: fileThere(dir + "/ready"),
	})
	assert.NoError(t, err)
	t.Cleanup(func() { _ = p.KillAll() })
	return p
}

func TestProcessRunsUntilItIsStopped(t *testing.T) {
	p := run(t, `trap 'echo bye; exit 0' TERM; echo $GREETING; touch ready; while :; do sleep 0.01; done`)
	if len(p.PIDs()) != 1 {
		t.Fatalf("processes %v", p.PIDs())
	}
	if err := p.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("started twice: %v", err)
	}
	assert.NoError(t, p.Stop())
	if p.PIDs() != nil {
		t.Errorf("processes %v after it was stopped", p.PIDs())
	}
	output, err := os.ReadFile(p.Log())
	if err != nil || string(output) != "hello\nbye\n" {
		t.Errorf("log %q, %v", output, err)
	}
}

func TestKilledProcessIsStartedAgain(t *testing.T) {
	p := run(t, `touch ready; sleep 1000 & wait`)
	before := p.PIDs()
	if err := p.KillAll(); err != nil || p.PIDs() != nil {
		t.Fatalf("%v, %v", p.PIDs(), err)
	}
	assert.NoError(t, p.Start(t.Context()))
	if after := p.PIDs(); len(after) != 1 || after[0] == before[0] {
		t.Errorf("process %v, was %v", after, before)
	}
}

func TestWhatAProcessLeavesBehindEndsWithIt(t *testing.T) {
	p := run(t, `mkfifo end; sleep 1000 & echo $! > ready.new; mv ready.new ready; read word < end`)
	assert.NoError(t, os.WriteFile(filepath.Join(p.command.Dir, "end"), []byte("now\n"), 0))
	<-p.child.Done() // the server ended by itself, but its own child lives
	data, err := os.ReadFile(filepath.Join(p.command.Dir, "ready"))
	assert.NoError(t, err)
	assert.NoError(t, p.Stop())
	for alive(strings.TrimSpace(string(data))) {
		runtime.Gosched()
	}
}

// alive reports whether a process runs. A zombie does not.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRunTellsWhyItFailed(t *testing.T) {
	tests := []struct {
		name, script, want string
		looks              int // that the caller waits for
	}{
		{"death", "echo I was not meant to live; exit 3", "I was not meant to live", math.MaxInt},
		{"time", "sleep 1000", "it says nothing", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			never := func(context.Context) error {
				if tt.looks--; tt.looks == 0 {
					cancel()
				}
				return errors.New("it says nothing")
			}
			command := Command{Args: []string{"sh", "-c", tt.script}, Dir: t.TempDir(), Ready: never}
			p, err := Run(ctx, command)
			if err == nil || !strings.Contains(err.Error(), tt.want) || p.PIDs() != nil {
				t.Errorf("processes %v, error %v", p.PIDs(), err)
			}
		})
	}
	_, err := Run(t.Context(), Command{Args: []string{"/does/not/exist"}, Dir: t.TempDir()})
	assert.Error(t, err, "nothing runs, and no error")
}

func TestGroup(t *testing.T) {
	group := Group{run(t, "touch ready; sleep 1000 & wait"), run(t, "touch ready; sleep 1000 & wait")}
	if err := group[1].KillAll(); err != nil || len(group.PIDs()) != 1 {
		t.Fatalf("processes %v after the end of one, %v", group.PIDs(), err)
	}
	if err := group.Restart(t.Context()); err == nil || len(group.PIDs()) != 2 {
		t.Errorf("one ran and one did not; processes %v, error %v", group.PIDs(), err)
	}
	if err := group.KillAll(); err != nil || group.PIDs() != nil {
		t.Errorf("processes %v after all were killed, %v", group.PIDs(), err)
	}
	if err := group.Restart(t.Context()); err != nil || len(group.PIDs()) != 2 {
		t.Errorf("processes %v after all were restarted, %v", group.PIDs(), err)
	}
	if err := group.Stop(); err != nil || group.PIDs() != nil {
		t.Errorf("processes %v after all were stopped, %v", group.PIDs(), err)
	}
}

func TestAnswers(t *testing.T) {
	addrs, err := local.FreeAddrs(1)
	assert.NoError(t, err)
	assert.Error(t, Answers(addrs[0])(t.Context()), "no server listens, but the check succeeds")
	l, err := net.Listen("tcp", addrs[0])
	assert.NoError(t, err)
	defer l.Close()
	assert.Equal(t, Answers(addrs[0])(t.Context()), nil)
}
