package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/deploy/child"
	"github.com/belfryhq/belfry/deploy/local"
	webhooks "github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

func TestRecoverRefuses(t *testing.T) {
	for says, args := range map[string][]string{
		"--lost-quorum is needed": {"--data", "x", "--to", "y"},
		"--data is needed":        {"--lost-quorum", "--to", "y"},
		"--to is needed":          {"--lost-quorum", "--data", "x"},
		"did you mean --data":     {"--lost-quorum", "--dat", "x"},
		"takes no argument":       {"--lost-quorum", "x"},
	} {
		if out, code := belfry(t, append([]string{"recover"}, args...)...); code != exitUsage || !strings.Contains(out, says) {
			t.Errorf("%v: %d\n%s", args, code, out)
		}
	}
	out, code := belfry(t, "recover", "--lost-quorum", "--data", t.TempDir(), "--to", "y")
	if code != exitFailed || !strings.Contains(out, "is no node's data folder") {
		t.Errorf("%d\n%s", code, out)
	}
}

// attempted records the attempts at a receiver, by task.
type attempted struct {
	mu     sync.Mutex
	byTask map[string]int
	early  []string // attempts before their due time
}

func (a *attempted) handle(one webhooks.Arrival) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byTask[one.TaskID]++
	if one.Lateness() < 0 {
		a.early = append(a.early, one.TaskID)
	}
	return 200
}

func (a *attempted) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byTask)
}

// lost is a cluster of three that was killed under load, of which nodes 2 and 3 lost their disks.
type lost struct {
	t        *testing.T
	binary   string
	dir      string // of the first node, which is left
	returned string // a copy of the second node's folder
	kept     map[string]client.Task
	dues     int // tasks due-0, due-1, … for the receiver
	leased   []client.Leased
	received *attempted
}

func loseTwoOfThree(t *testing.T) *lost {
	t.Helper()
	l := &lost{
		t: t, binary: program(t), returned: filepath.Join(t.TempDir(), "returned"), kept: map[string]client.Task{},
		received: &attempted{byTask: map[string]int{}},
	}
	cluster := localCluster(t, local.Config{})
	defer cluster.Stop()
	nodes := cluster.Nodes()
	l.dir = nodes[0].Data
	l.fill(dialNodes(t, cluster.URLs()))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go l.load(ctx, dialNodes(t, cluster.URLs()))
	for _, n := range nodes {
		assert.NoError(t, cluster.Kill(n.Name))
	}
	assert.NoError(t, os.CopyFS(l.returned, os.DirFS(nodes[1].Data)))
	assert.NoError(t, errors.Join(os.RemoveAll(nodes[1].Data), os.RemoveAll(nodes[2].Data)))
	return l
}

func dialNodes(t *testing.T, urls []string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Addrs: urls})
	assert.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// fill schedules tasks, leases some, and waits until all replicas are equal.
func (l *lost) fill(c *client.Client) {
	l.t.Helper()
	server := httptest.NewServer(webhooks.Handler(l.received.handle))
	l.t.Cleanup(server.Close)
	put := func(task client.Task) client.Task {
		if _, err := c.Schedule(l.t.Context(), task); err != nil {
			l.t.Fatal(err)
		}
		made, err := c.Get(l.t.Context(), task.ID)
		assert.NoError(l.t, err)
		return *made
	}
	for i := range 200 {
		id := fmt.Sprint("kept-", i)
		l.kept[id] = put(client.Task{ID: id, Delay: time.Hour, Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	for l.dues = range 60 {
		delay := 4*time.Second + time.Duration(l.dues)*300*time.Millisecond
		put(client.Task{ID: fmt.Sprint("due-", l.dues), Delay: delay, Target: &client.Target{URL: server.URL}})
	}
	for i := range 5 {
		put(client.Task{ID: fmt.Sprint("leased-", i), Queue: "pulled"})
	}
	for len(l.leased) < 5 {
		more, err := c.Lease(l.t.Context(), "pulled", client.Demand{Max: 5, Lease: time.Hour, Wait: 10 * time.Second})
		assert.NoError(l.t, err)
		l.leased = append(l.leased, more...)
	}
	l.awaitEqual(c)
}

// awaitEqual waits until all replicas of each shard have the same state.
func (l *lost) awaitEqual(c *client.Client) {
	l.t.Helper()
	awaitNil(l.t, func() error {
		view, err := c.Cluster(l.t.Context())
		if err != nil {
			return err
		}
		for _, s := range view.Shards {
			for _, r := range s.Replicas {
				if r.Hash != s.Replicas[0].Hash || r.Applied != s.Replicas[0].Applied {
					return fmt.Errorf("shard %d: %+v", s.ID, s.Replicas)
				}
			}
		}
		return nil
	})
}

// load schedules further tasks until a call fails.
func (l *lost) load(ctx context.Context, c *client.Client) {
	for i := 0; ; i++ {
		if _, err := c.Schedule(ctx, client.Task{ID: fmt.Sprint("load-", i), Delay: time.Hour}); err != nil {
			return
		}
	}
}

// recover runs belfry recover, and returns its plan.
func (l *lost) recover(to string) recovery.Plan {
	l.t.Helper()
	args := []string{"recover", "--lost-quorum", "--data", l.dir, "--to", to, "--json"}
	out, code := belfry(l.t, args...) // the input of the test has no id
	if code != exitFailed || !strings.Contains(out, "nothing was changed") {
		l.t.Fatalf("without a confirmation: %d\n%s", code, out)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		l.t.Fatalf("without a confirmation: %s is there", to)
	}
	var plan recovery.Plan
	line, _, _ := strings.Cut(out, "\n")
	assert.NoError(l.t, json.Unmarshal([]byte(line), &plan), "%s", out)
	args = append(args, "--confirm", plan.ClusterID)
	last := plan.Groups[len(plan.Groups)-1].Number
	for _, moment := range []string{restoring, groupDir(0), groupDir(last / 2), groupDir(last)} {
		l.kill(to, moment, args)
	}
	out, code = belfry(l.t, args...)
	assert.MustEqual(l.t, code, 0, "%s", out)
	return plan
}

// restoring is the name of the file that marks a folder as unfinished.
const restoring = "RESTORING"

func groupDir(number uint32) string { return filepath.Join("groups", fmt.Sprintf("%04d", number)) }

// kill runs a command that writes a folder, and kills it when the folder has the file name. The folder is unfinished
// then. A command that ended too soon runs again, into an empty folder.
func (l *lost) kill(folder, name string, args []string) {
	l.t.Helper()
	log := filepath.Join(l.t.TempDir(), "log")
	for range 20 {
		run, err := child.Start(child.Config{Command: append([]string{l.binary}, args...), Log: log})
		assert.NoError(l.t, err)
		awaitFile(run, filepath.Join(folder, name))
		assert.NoError(l.t, run.SignalGroup(syscall.SIGKILL))
		<-run.Done()
		if _, err := os.Stat(filepath.Join(folder, restoring)); err == nil {
			return
		}
		assert.NoError(l.t, os.RemoveAll(folder))
	}
	l.t.Fatalf("it always ended before it could be killed at %s: %s", name, child.LogTail(log))
}

// awaitFile waits until a file is there or the process has ended.
func awaitFile(run *child.Child, path string) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-run.Done():
			return
		}
	}
}

// TestRecoverLostQuorum kills a cluster of three under load and deletes two disks. Belfry recover, killed at several
// moments and repeated, makes a cluster of the third. It has every task that the survivor had, with its lease. It fires
// nothing early. Two empty nodes join it, and a node of the lost cluster that returns stays out.
func TestRecoverLostQuorum(t *testing.T) {
	gated.Need(t, gated.Real)
	t.Parallel()
	l := loseTwoOfThree(t)
	dir := t.TempDir()
	plan := l.recover(filepath.Join(dir, "node-1"))
	cluster := localCluster(t, local.Config{DataDir: dir})
	c := dialNodes(t, cluster.URLs())
	view := l.checkServed(c, plan)
	if len(view.Nodes) != 3 || view.ID == plan.ClusterID {
		t.Errorf("cluster %s of %d nodes, made of %s", view.ID, len(view.Nodes), plan.ClusterID)
	}
	l.checkStaysOut(cluster)
	l.checkGrows(c, cluster.URLs())
	awaitNil(t, func() error {
		if n := l.received.count(); n != l.dues+1 {
			return fmt.Errorf("%d of %d tasks were delivered", n, l.dues+1)
		}
		return nil
	})
	l.received.mu.Lock()
	defer l.received.mu.Unlock()
	if len(l.received.early) > 0 {
		t.Errorf("early: %v", l.received.early)
	}
}

// checkServed checks that the cluster has all tasks of the plan.
func (l *lost) checkServed(c *client.Client, plan recovery.Plan) *client.Cluster {
	l.t.Helper()
	for id, want := range l.kept {
		got, err := c.Get(l.t.Context(), id)
		if err != nil || got.Revision != want.Revision || !got.FireAt.Equal(want.FireAt) ||
			string(got.Payload) != string(want.Payload) {
			l.t.Errorf("%s: %+v, %v; want %+v", id, got, err, want)
		}
	}
	planned, found := 0, 0
	for _, g := range plan.Groups {
		for _, n := range maps.All(g.Tasks) {
			planned += n
		}
		if g.Number > 0 && (g.Loss != recovery.Possible && g.Loss != recovery.Certain || g.At == "") {
			l.t.Errorf("the plan of %+v", g)
		}
	}
	for _, err := range c.List(l.t.Context(), client.Filter{}) {
		assert.NoError(l.t, err)
		found++
	}
	if found != planned {
		l.t.Errorf("%d tasks are listed, and the survivor had %d", found, planned)
	}
	l.settle(c)
	view, err := c.Cluster(l.t.Context())
	assert.NoError(l.t, err)
	return view
}

// checkGrows waits until each shard has a replica on each of the three nodes, and doctor finds nothing wrong.
func (l *lost) checkGrows(c *client.Client, urls []string) {
	l.t.Helper()
	awaitNil(l.t, func() error {
		view, err := c.Cluster(l.t.Context())
		if err != nil {
			return err
		}
		for _, s := range view.Shards {
			if len(s.Replicas) != 3 {
				return fmt.Errorf("shard %d: %+v", s.ID, s.Replicas)
			}
		}
		return nil
	})
	awaitFindings(l.t, urls, 0)
}

// settle acknowledges the leases from before the loss.
func (l *lost) settle(c *client.Client) {
	l.t.Helper()
	var receipts []string
	for _, task := range l.leased {
		receipts = append(receipts, task.Receipt)
	}
	for _, r := range c.Settle(l.t.Context(), "pulled", client.Settlement{Ack: receipts}) {
		assert.Equal(l.t, r.Err, nil, "an ack of a lease from before")
	}
}

// checkStaysOut starts the second node of the lost cluster from its old disk, next to the new cluster.
func (l *lost) checkStaysOut(cluster *local.Cluster) {
	l.t.Helper()
	addrs, err := local.FreeAddrs(2)
	assert.NoError(l.t, err)
	command := []string{l.binary, "serve", "--name", "node-2", "--data", l.returned, "--http", addrs[0], "--peer", addrs[1]}
	for _, n := range cluster.Nodes() {
		command = append(command, "--join", n.PeerAddr)
	}
	old, err := child.Start(child.Config{Command: command, Log: filepath.Join(l.t.TempDir(), "log")})
	assert.NoError(l.t, err)
	l.t.Cleanup(func() {
		assert.Equal(l.t, old.SignalGroup(syscall.SIGKILL), nil)
		<-old.Done()
	})
	out, code := belfry(l.t, "doctor", "--addr", "http://"+addrs[0], "--json")
	if code != exitCritical || !strings.Contains(out, "node-waits") {
		l.t.Errorf("a node of the lost cluster says: %d\n%s", code, out)
	}
	c := dialNodes(l.t, cluster.URLs())
	for i := range 20 {
		_, err := c.Schedule(l.t.Context(), client.Task{ID: fmt.Sprint("after-", i), Delay: time.Hour})
		assert.Equal(l.t, err, nil)
	}
	view, err := c.Cluster(l.t.Context())
	if err != nil || slices.ContainsFunc(view.Nodes, func(n client.Node) bool { return n.HTTPAddr == addrs[0] }) {
		l.t.Errorf("a node of the lost cluster is in the new one: %+v, %v", view, err)
	}
}
