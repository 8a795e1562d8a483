package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// limits are the greatest numbers of functions that the calls may pass: about ten more than the most that was counted,
// since functions that an idle cluster runs now and then come and go. Lower one when its count falls.
var limits = map[string]int{"PUT": 600, "cancel": 503, "fire": 664}

const (
	rounds = 8
	// idleRounds is the number of seconds without a call in which a function must run to be left out.
	idleRounds = 3
	window     = time.Second
	patience   = 5 * time.Minute
	module     = "github.com/belfryhq/belfry/"
)

// TestFunctionsPassed counts the functions of this module that one call to the leader of a shard passes, on the leader
// and on its followers. One idea built twice, or a layer that only hands on, shows here. A function counts if it ran in
// the second after each of several such calls, and mostly not in a second without a call: the work of an idle cluster is
// left out. A function literal counts with the function that it stands in. Generated code and other modules do not
// count. With -v the test prints the functions, by package.
func TestFunctionsPassed(t *testing.T) {
	gated.Need(t, gated.Real)
	c := start(t)
	counts := map[string]map[function]int{"idle": {}, "PUT": {}, "cancel": {}, "fire": {}}
	step := func(name string, act func()) {
		c.write()
		act()
		time.Sleep(window)
		for _, f := range c.functions() {
			counts[name][f]++
		}
	}
	for round := range rounds {
		kept, fired := fmt.Sprint("kept-", round), fmt.Sprint("fired-", round)
		step("idle", func() {})
		step("PUT", func() { c.put(kept, time.Hour) })
		step("cancel", func() { c.call("DELETE", "/v1/tasks/"+kept, "") })
		c.put(fired, 2*window)
		time.Sleep(window)
		step("fire", func() {
			select {
			case <-c.fired:
			case <-t.Context().Done():
				t.Fatal("the task did not fire")
			}
		})
	}
	for _, call := range slices.Sorted(maps.Keys(limits)) {
		files, packages, passed := map[string]bool{}, map[string][]string{}, 0
		for f, n := range counts[call] {
			if n == rounds && counts["idle"][f] < idleRounds {
				passed++
				files[f.file] = true
				packages[path.Dir(f.file)] = append(packages[path.Dir(f.file)], path.Base(f.file)+":"+f.line+" "+f.name)
			}
		}
		t.Logf("note: %s: %d functions in %d files and %d packages", call, passed, len(files), len(packages))
		for _, name := range slices.Sorted(maps.Keys(packages)) {
			slices.Sort(packages[name])
			t.Logf("%s %d: %s", name, len(packages[name]), strings.Join(packages[name], ", "))
		}
		if passed > limits[call] {
			t.Errorf("%s passes %d functions, and may pass %d", call, passed, limits[call])
		}
	}
}

// function is a function of this module, at its place.
type function struct{ file, line, name string }

// cluster is the nodes of a process, and a receiver of their tasks.
type cluster struct {
	t        *testing.T
	in       io.Writer
	out      *bufio.Scanner
	leader   string // base URL of the shard's leader
	receiver *httptest.Server
	fired    chan struct{} // capacity 1: the receiver has got a task
}

func start(t *testing.T) *cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	program := filepath.Join(t.TempDir(), "passes")
	build := exec.CommandContext(ctx, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "-o", program, ".")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	c := &cluster{t: t, fired: make(chan struct{}, 1)}
	c.receiver = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.fired <- struct{}{} }))
	t.Cleanup(c.receiver.Close)
	run := exec.CommandContext(ctx, program, t.TempDir())
	run.Env = append(run.Environ(), "GOCOVERDIR="+t.TempDir())
	run.Stderr = t.Output()
	in, err := run.StdinPipe()
	assert.NoError(t, err)
	out, err := run.StdoutPipe()
	assert.NoError(t, err)
	assert.NoError(t, run.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = run.Wait() // its data is dropped
	})
	c.in, c.out = in, bufio.NewScanner(out)
	for range 3 {
		c.leader = c.line() // any node, until the leader is known
	}
	c.leader = c.findLeader()
	return c
}

// line returns the next line that the process prints.
func (c *cluster) line() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("the nodes have ended: %v", c.out.Err())
	}
	return c.out.Text()
}

func (c *cluster) findLeader() string {
	c.t.Helper()
	for {
		var found struct {
			Nodes []struct {
				ID  string
				URL string `json:"http_url"`
			}
			Shards []struct{ Leader string }
		}
		assert.NoError(c.t, json.Unmarshal(c.call("GET", "/v1/map", ""), &found))
		for _, n := range found.Nodes {
			if len(found.Shards) == 1 && found.Shards[0].Leader == n.ID {
				return n.URL
			}
		}
		time.Sleep(window / 10)
	}
}

// call makes a call and returns its answer.
func (c *cluster) call(method, path, body string) []byte {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.leader+path, strings.NewReader(body))
	assert.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	assert.NoError(c.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		c.t.Fatalf("%s %s: %s: %s %v", method, path, resp.Status, answer, err)
	}
	return answer
}

// put schedules a task that comes due after a delay.
func (c *cluster) put(id string, delay time.Duration) {
	c.t.Helper()
	c.call("PUT", "/v1/tasks/"+id,
		fmt.Sprintf(`{"delay":"%s","payload":{"order":1042},"target":{"url":"%s/hook"}}`, delay, c.receiver.URL))
}

// write returns a folder with the counters since the last write.
func (c *cluster) write() (dir string) {
	c.t.Helper()
	dir = c.t.TempDir()
	_, err := fmt.Fprintln(c.in, dir)
	assert.NoError(c.t, err)
	c.line()
	return dir
}

// functions returns the functions that have run since the last write.
func (c *cluster) functions() (ran []function) {
	c.t.Helper()
	covdata := exec.CommandContext(c.t.Context(), "go", "tool", "covdata", "func", "-i="+c.write())
	covdata.Stderr = c.t.Output()
	said, err := covdata.Output()
	assert.NoError(c.t, err)
	for line := range strings.Lines(string(said)) {
		// github.com/belfryhq/belfry/wheel/wheel.go:45:	Add	87.5%
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] == "0.0%" {
			continue
		}
		file, at, _ := strings.Cut(strings.TrimPrefix(fields[0], module), ":")
		if !strings.HasSuffix(file, ".pb.go") && !strings.HasPrefix(file, "node/nodetest/") {
			ran = append(ran, function{file, strings.TrimSuffix(at, ":"), fields[1]})
		}
	}
	return ran
}
