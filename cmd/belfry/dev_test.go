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
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

var readyLine = regexp.MustCompile(`^ready: (http://127\.0\.0\.1:\d+) after (\S+)\n$`)

// TestDev runs `belfry dev` as a process. A task that is due in 48 hours is delivered right after `belfry advance 48h`.
// The process ends on SIGTERM and on SIGINT, and removes its folder.
func TestDev(t *testing.T) {
	localtest.Need(t)
	binary := localtest.Build(t)
	arrived := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Ce-Subject")
	}))
	t.Cleanup(receiver.Close)
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		temp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), binary, "dev", "--http", "127.0.0.1:0")
		cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+temp), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		ready := readyLine.FindStringSubmatch(line)
		if ready == nil {
			t.Fatalf("%q, %v", line, err)
		}
		c, err := client.New(client.Config{Addrs: []string{ready[1]}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Schedule(t.Context(), client.Task{
			ID: "later", Delay: 48 * time.Hour, Target: &client.Target{URL: receiver.URL},
		}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if text, code := belfry(t, "advance", "48h", "--addr", ready[1]); code != 0 || !strings.Contains(text, "begun  1") {
			t.Errorf("%d %s", code, text)
		}
		if id := <-arrived; id != "later" {
			t.Errorf("%s arrived", id)
		}
		t.Logf("ready after %s, delivered %v after the call", ready[2], time.Since(began))
		c.Close()
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %v: %v", signal, err)
		}
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
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
	addr, _ := running(t)
	if out, code := belfry(t, "advance", "48h", "--addr", addr); code == 0 || !strings.Contains(out, "/v1/dev/advance") {
		t.Errorf("%d %s", code, out)
	}
}
