package child

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func shell(t *testing.T, script string) *Child {
	t.Helper()
	c, err := Start(Config{Command: []string{"sh", "-c", script}, Log: filepath.Join(t.TempDir(), "log")})
	assert.NoError(t, err)
	t.Cleanup(func() { _ = c.SignalGroup(syscall.SIGKILL) })
	return c
}

func TestOutputGoesToTheEndOfTheLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, word := range []string{"first", "second"} {
		c, err := Start(Config{Command: []string{"sh", "-c", "echo $WORD; echo from $PWD >&2"}, Dir: filepath.Dir(log),
			Env: []string{"WORD=" + word}, Log: log})
		assert.NoError(t, err)
		<-c.Done()
		if c.Err() != nil || !c.Ended() {
			t.Errorf("ended %t, %v", c.Ended(), c.Err())
		}
	}
	dir := filepath.Dir(log)
	got, want := LogTail(log), "first\nfrom "+dir+"\nsecond\nfrom "+dir
	assert.Equal(t, got, want, "log")
}

func TestLogTailIsShort(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	assert.NoError(t, os.WriteFile(log, []byte(strings.Repeat("x", 10_000)+"end\n"), 0o644))
	if got := LogTail(log); len(got) != tailBytes-1 || !strings.HasSuffix(got, "xend") {
		t.Errorf("%d bytes", len(got))
	}
	assert.Contains(t, LogTail(log+"-not"), "no such file", "said")
}

func TestDeathIsTold(t *testing.T) {
	c := shell(t, "exit 3")
	<-c.Done()
	if c.Err() == nil || !strings.Contains(c.Err().Error(), "3") {
		t.Errorf("ended with %v", c.Err())
	}
	assert.Equal(t, c.SignalGroup(syscall.SIGTERM), nil, "signal to an empty group")
	_, err := Start(Config{Command: []string{"/does/not/exist"}, Log: filepath.Join(t.TempDir(), "log")})
	assert.Error(t, err, "nothing was started, and no error")
}

// TestGroupEndsWhole checks that a signal to the group also ends a grandchild.
func TestGroupEndsWhole(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	assert.NoError(t, syscall.Mkfifo(fifo, 0o600))
	// The grandchild holds the pipe open for writing, so the pipe ends when the grandchild does.
	c := shell(t, "sleep 1000 > "+fifo+" & wait")
	pipe, err := os.OpenFile(fifo, os.O_RDONLY, 0)
	assert.NoError(t, err)
	defer func() { _ = pipe.Close() }()
	assert.NoError(t, c.SignalGroup(syscall.SIGKILL))
	<-c.Done()
	if n, err := pipe.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the pipe has %d bytes, %v", n, err)
	}
}
