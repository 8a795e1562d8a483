package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

var readyLine = regexp.MustCompile(`^ready: (http://127\.0\.0\.1:\d+) after (\S+)\n$`)

// TestDev runs `belfry dev` as a process. A task that is due in 48 hours is delivered right after `belfry advance 48h`.
// A schedule goes through its life. The process ends on SIGTERM, and removes its folder.
func TestDev(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	d.delivers(t)
	followSchedule(t, d.url)
	d.end(t, syscall.SIGTERM)
}

// TestDevEndsOnInterrupt is TestDev with the signal that Ctrl-C sends.
func TestDevEndsOnInterrupt(t *testing.T) {
	gated.Need(t, gated.Real)
	d := startDev(t)
	d.delivers(t)
	d.end(t, os.Interrupt)
}

// devNode is a process of `belfry dev`.
type devNode struct {
	url  string
	temp string // the folder of its temporary files
	cmd  *exec.Cmd
}

func startDev(t *testing.T) *devNode {
	t.Helper()
	d := &devNode{temp: t.TempDir()}
	d.cmd = exec.CommandContext(t.Context(), program(t), "dev", "--http", "127.0.0.1:0")
	d.cmd.Env, d.cmd.Stderr = append(os.Environ(), "TMPDIR="+d.temp), os.Stderr
	out, err := d.cmd.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, d.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	ready := readyLine.FindStringSubmatch(line)
	if ready == nil {
		t.Fatalf("%q, %v", line, err)
	}
	d.url = ready[1]
	return d
}

// delivers checks that a task of the day after tomorrow arrives once the clock is there.
func (d *devNode) delivers(t *testing.T) {
	t.Helper()
	arrived := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Ce-Subject")
	}))
	t.Cleanup(receiver.Close)
	c, err := client.New(client.Config{Addrs: []string{d.url}})
	assert.NoError(t, err)
	defer c.Close()
	if _, err := c.Schedule(t.Context(), client.Task{
		ID: "later", Delay: 48 * time.Hour, Target: &client.Target{URL: receiver.URL},
	}); err != nil {
		t.Fatal(err)
	}
	if text, code := belfry(t, "advance", "48h", "--addr", d.url); code != 0 || !strings.Contains(text, "begun  1") {
		t.Errorf("%d %s", code, text)
	}
	assert.Equal(t, <-arrived, "later", "arrived")
}

// end ends the process by a signal, and checks that it leaves nothing behind.
func (d *devNode) end(t *testing.T, signal os.Signal) {
	t.Helper()
	assert.NoError(t, d.cmd.Process.Signal(signal))
	assert.Equal(t, d.cmd.Wait(), nil, "after %v", signal)
	if left, err := os.ReadDir(d.temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDevOnThisMachine checks that other machines do not reach a node in dev mode, and that other nodes have no such
// clock.
func TestDevOnThisMachine(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":8400", "192.0.2.1:8400", "8400"} {
		out, code := belfry(t, "dev", "--http", addr)
		if code != exitUsage || !strings.Contains(out, "is not an address on this machine") {
			t.Errorf("%s: %d %s", addr, code, out)
		}
	}
	addr, _ := onNode(t)
	out, code := belfry(t, "advance", "48h", "--addr", addr)
	if code == 0 || !strings.Contains(out, `only a node of "belfry dev"`) {
		t.Errorf("%d %s", code, out)
	}
}
