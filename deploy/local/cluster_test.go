package local

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// Environment variables that make this test program play another role. The tests' nodes are this program in the role of
// `belfry serve`.
const (
	playNode   = "LOCAL_TEST_PLAYS_NODE"
	playParent = "BELFRY_TEST_PLAYS_PARENT" // the value is the data folder; children do not inherit it
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(playParent) != "":
		os.Exit(parent(os.Getenv(playParent)))
	case os.Getenv(playNode) != "":
		os.Exit(serve(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// serve plays a node without tasks: it answers that it is ready, and it stops on SIGTERM.
func serve(args []string) int {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	for _, name := range []string{
		"name", "data", "peer", "bootstrap-expect", "allow-webhook-cidr", "allow-broker-cidr", "join", "memory-limit",
		"root-key-file",
	} {
		flags.String(name, "", "")
	}
	addr := flags.String("http", "", "")
	mood := flags.String("mood", "", "die, deaf or unready")
	if err := flags.Parse(args[1:]); err != nil {
		return 2
	}
	stop := make(chan os.Signal, 1)
	if *mood == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(stop, syscall.SIGTERM)
	}
	if *mood == "die" {
		fmt.Println("I was not meant to live")
		return 3
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if *mood == "unready" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"args": args, "env": os.Environ()})
		}))
	}()
	<-stop
	return 0
}

func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), playing(t, cfg))
	assert.NoError(t, err)
	t.Cleanup(c.Stop)
	return c
}

func playing(t *testing.T, cfg Config) Config {
	t.Helper()
	t.Setenv(playNode, "1")
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	return cfg
}

func next(t *testing.T, c *Cluster) Event {
	t.Helper()
	return <-c.Events()
}

// skip reads the events of the start.
func skip(t *testing.T, c *Cluster) {
	t.Helper()
	for range c.Nodes() {
		next(t, c)
	}
}

func TestNodesGetTheirFlags(t *testing.T) {
	t.Setenv("BELFRY_SHARDS", "7")
	t.Setenv("GOMEMLIMIT", "")
	c := start(t, Config{Nodes: 3, ExtraArgs: []string{"--mood", "good"}})
	nodes := c.Nodes()
	resp, err := http.Get(c.URLs()[1])
	assert.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var told struct{ Args, Env []string }
	assert.NoError(t, json.NewDecoder(resp.Body).Decode(&told))
	n := nodes[1]
	want := []string{"serve", "--name", "node-2", "--data", n.Dir, "--http", n.HTTPAddr, "--peer", n.PeerAddr,
		"--allow-webhook-cidr", "127.0.0.0/8", "--allow-webhook-cidr", "::1/128",
		"--allow-broker-cidr", "127.0.0.0/8", "--allow-broker-cidr", "::1/128", "--memory-limit", "25%",
		"--bootstrap-expect", "3", "--join", nodes[0].PeerAddr + "," + nodes[2].PeerAddr, "--mood", "good"}
	assert.EqualSlices(t, told.Args, want, "arguments")
	if slices.Contains(told.Env, "BELFRY_SHARDS=7") {
		t.Error("the child sees the parent's variables")
	}
}

// TestFoundersAndJoiners checks that one, three or five nodes form a cluster, and that further nodes join it.
func TestFoundersAndJoiners(t *testing.T) {
	for n, want := range map[int][]string{
		1: {"expect"}, 2: {"expect", "join"},
		4: {"expect join", "expect join", "expect join", "join"},
	} {
		c := &Cluster{}
		for i := range n {
			c.members = append(c.members, &member{Node: Node{Name: strconv.Itoa(i), PeerAddr: strconv.Itoa(i)}})
		}
		for i, m := range c.members {
			var got []string
			args := c.args(m)
			if slices.Contains(args, "--bootstrap-expect") {
				got = append(got, "expect")
			}
			if slices.Contains(args, "--join") {
				got = append(got, "join")
			}
			assert.Equal(t, strings.Join(got, " "), want[i], "node %d of %d: %v", i, n, args)
		}
	}
}

func TestPIDFileFollowsTheNode(t *testing.T) {
	c := start(t, Config{Nodes: 1})
	n := c.Nodes()[0]
	data, err := os.ReadFile(filepath.Join(n.Dir, "belfry.pid"))
	if err != nil || strings.TrimSpace(string(data)) != strconv.Itoa(n.PID) {
		t.Fatalf("pid file %q, %v; pid %d", data, err, n.PID)
	}
	assert.NoError(t, c.Kill("node-1"))
	if _, err := os.Stat(filepath.Join(n.Dir, "belfry.pid")); !os.IsNotExist(err) {
		t.Errorf("the pid file outlives the node: %v", err)
	}
	assert.Equal(t, c.Nodes()[0].PID, 0, "a killed node has pid")
}

func TestKilledNodeStaysDeadUntilStarted(t *testing.T) {
	c := start(t, Config{Nodes: 2, Restart: true})
	skip(t, c)
	assert.NoError(t, c.Kill("node-2"))
	if e := next(t, c); e.Kind != Killed || e.Node != "node-2" {
		t.Errorf("event %v", e)
	}
	assert.Error(t, c.Kill("node-2"), "a dead node was killed")
	assert.NoError(t, c.StartNode(t.Context(), "node-2"))
	assert.Error(t, c.StartNode(t.Context(), "node-2"), "a running node was started")
	if e := next(t, c); e.Kind != Started || e.PID != c.Nodes()[1].PID {
		t.Errorf("event %v", e)
	}
}

func TestDeathIsReportedAndNothingElseHappens(t *testing.T) {
	var out assert.Log
	c := start(t, Config{Nodes: 2, Out: &out})
	skip(t, c)
	assert.NoError(t, syscall.Kill(c.Nodes()[0].PID, syscall.SIGKILL))
	if e := next(t, c); e.Kind != Died || e.Node != "node-1" || !strings.Contains(e.Err.Error(), "killed") {
		t.Errorf("event %v", e)
	}
	if nodes := c.Nodes(); nodes[0].PID != 0 || nodes[1].PID == 0 {
		t.Errorf("nodes %+v", nodes)
	}
	assert.Contains(t, out.String(), "node-1 died", "said")
}

func TestRestartAfterDeath(t *testing.T) {
	c := start(t, Config{Nodes: 1, Restart: true})
	skip(t, c)
	assert.NoError(t, c.Signal("node-1", syscall.SIGKILL))
	if died, started := next(t, c), next(t, c); died.Kind != Died || started.Kind != Started {
		t.Errorf("events %v, %v", died, started)
	}
}

func TestStopEndsAPendingRestart(t *testing.T) {
	c := start(t, Config{Nodes: 1, Restart: true})
	skip(t, c)
	assert.NoError(t, c.Signal("node-1", syscall.SIGKILL))
	next(t, c)
	c.Stop()
	if pid := c.Nodes()[0].PID; pid != 0 {
		t.Errorf("pid %d after Stop", pid)
	}
	assert.Error(t, c.StartNode(t.Context(), "node-1"), "started after Stop")
}

func TestStopIsInOrderAndReachesPausedNodes(t *testing.T) {
	c := start(t, Config{Nodes: 3})
	skip(t, c)
	assert.NoError(t, c.Pause("node-2"))
	c.Stop()
	for _, want := range []string{"node-3", "node-2", "node-1"} {
		if e := next(t, c); e.Node != want || e.Kind != Stopped || e.Err != nil {
			t.Errorf("event %v, want %s stopped", e, want)
		}
	}
	c.Stop()
}

func TestDeafNodeIsKilledAfterTheGrace(t *testing.T) {
	var out assert.Log
	c := start(t, Config{Nodes: 1, ExtraArgs: []string{"--mood", "deaf"}, Grace: 50 * time.Millisecond, Out: &out})
	c.Stop()
	assert.Contains(t, out.String(), "has not stopped within 50ms", "said")
}

func TestFolderIsTheCluster(t *testing.T) {
	dir := t.TempDir()
	first := start(t, Config{Nodes: 2, DataDir: dir})
	first.Stop()
	second := start(t, Config{Nodes: 2, DataDir: dir})
	second.Stop()
	for i, n := range second.Nodes() {
		if before := first.Nodes()[i]; n != before {
			t.Errorf("was %+v, is %+v", before, n)
		}
	}
	_, err := Start(t.Context(), playing(t, Config{Nodes: 3, DataDir: dir}))
	assert.Error(t, err, "three nodes started in a folder of two")
}

// TestAddressesAreFreeBesideForks checks ports while this process starts others. Each of them holds copies of the open
// sockets until it runs its program, and one port in fourteen was said to be taken.
func TestAddressesAreFreeBesideForks(t *testing.T) {
	stop, forks := make(chan struct{}), sync.WaitGroup{}
	for range 3 {
		forks.Go(func() {
			for !isClosed(stop) {
				_ = exec.Command(os.Args[0], "-test.run", "^$").Run()
			}
		})
	}
	for range 300 {
		addrs, err := FreeAddrs(6)
		assert.NoError(t, err)
		for _, addr := range addrs {
			assert.Equal(t, checkFree(addr), nil)
		}
	}
	close(stop)
	forks.Wait()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFreeAddrsDiffer(t *testing.T) {
	addrs, err := FreeAddrs(50)
	assert.NoError(t, err)
	slices.Sort(addrs)
	assert.Equal(t, len(slices.Compact(addrs)), 50, "different ones of 50")
}

func TestHTTPPortsCountUp(t *testing.T) {
	ports, err := freePorts(1)
	assert.NoError(t, err)
	l, err := openLayout(Config{Nodes: 3, DataDir: t.TempDir(), HTTPPort: ports[0]})
	assert.NoError(t, err)
	for i, a := range l.Nodes {
		assert.Equal(t, a.HTTP, hostPort(ports[0]+i), "node %d listens on", i)
	}
}

func TestStartTellsWhyItFailed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	defer func() { _ = taken.Close() }()
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"death", Config{Nodes: 2, ExtraArgs: []string{"--mood", "die"}}, "I was not meant to live"},
		{"time", Config{Nodes: 1, ExtraArgs: []string{"--mood", "unready"}, StartTimeout: 200 * time.Millisecond},
			"not ready"},
		{"port", Config{Nodes: 1, HTTPPort: taken.Addr().(*net.TCPAddr).Port}, "taken"},
		{"binary", Config{Nodes: 1, Binary: "/does/not/exist"}, "/does/not/exist"},
		{"nodes", Config{Nodes: -1}, "-1 nodes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Start(t.Context(), playing(t, tt.cfg))
			if err == nil {
				c.Stop()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want it to say %q", err, tt.want)
			}
		})
	}
}
