package stand

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// TestLeaderClockIsSet sets a leader's clock ahead and back. No task is early, and a node with a right clock takes over.
// Delays in calls to the node meanwhile still count from the time of the other nodes. TestLeaderClockIsSet of package
// shard judges in simulated time how late the tasks are.
func TestLeaderClockIsSet(t *testing.T) {
	gated.Need(t, gated.Real)
	localtest.Need(t)
	s, err := Open(t.Context(), Config{Binary: localtest.Build(t, "chaos"), Dir: t.TempDir(), Shards: 1, Clocks: true})
	assert.NoError(t, err)
	defer func() {
		assert.Equal(t, s.Close(), nil)
	}()
	for _, by := range []time.Duration{10 * time.Second, -10 * time.Second, -time.Hour} {
		setLeaderClock(t, s, by)
	}
}

const (
	rowEvery = 20 * time.Millisecond
	rowTasks = 300
)

func setLeaderClock(t *testing.T, s *Stand, by time.Duration) {
	t.Helper()
	r := newRow(t)
	begin := time.Now().Add(time.Second)
	r.schedule(t, s, begin, strconv.FormatInt(begin.UnixMilli(), 10))
	r.await(t, rowTasks/4)
	leader := awaitLeader(t, s)
	s.Clocks[leader].Set(int64(by))
	struck := time.Now()
	until(t, fmt.Sprintf("%s, off by %v, hands over", leader, by), func() error {
		if now := awaitLeader(t, s); now == leader {
			return errors.New("the node still leads")
		}
		return nil
	})
	took := time.Since(struck)
	r.await(t, rowTasks/2)
	delayThrough(t, s, leader, r.url)
	r.await(t, rowTasks)
	if now := awaitLeader(t, s); now == leader {
		t.Errorf("%s leads again although its clock is off by %v", leader, by)
	}
	s.Clocks[leader].Set(0)
	early, late := r.off()
	if early > 0 {
		t.Errorf("a clock set by %v: up to %v early", by, early)
	}
	t.Logf("a clock set by %v: another node led after %v; nothing early, at most %v late", by, took, late)
}

// delayThrough schedules a task with a delay through a node, and checks the resulting due time.
func delayThrough(t *testing.T, s *Stand, node, url string) {
	t.Helper()
	c, err := nodeClient(s, node, 15*time.Second)
	assert.NoError(t, err)
	began := time.Now()
	var got client.Task
	_, err = c.Schedule(t.Context(), client.Task{Delay: time.Hour, Target: &client.Target{URL: url}}, client.ReturnTask(&got))
	assert.NoError(t, err)
	const bound = 250 * time.Millisecond
	least, most := began.Add(time.Hour-bound), time.Now().Add(time.Hour+bound)
	if got.FireAt.Before(least) || got.FireAt.After(most) {
		t.Errorf("a delay of an hour through %s, whose clock is off, ends %v after the call", node, got.FireAt.Sub(began))
	}
}

// row is a series of tasks at equal distances, with the due time and the arrival of each.
type row struct {
	url string

	mu  sync.Mutex // guards the fields below
	due map[string]time.Time
	at  map[string]time.Time // times of the first attempts
}

func newRow(t *testing.T) *row {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	r := &row{url: "http://" + l.Addr().String(), due: map[string]time.Time{}, at: map[string]time.Time{}}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: r}
	go func() {
		assert.ErrorIs(t, server.Serve(l), http.ErrServerClosed)
	}()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

func (r *row) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	now, id := time.Now(), req.Header.Get("ce-subject")
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.at[id]; !known {
		r.at[id] = now
	}
}

func (r *row) schedule(t *testing.T, s *Stand, begin time.Time, prefix string) {
	t.Helper()
	tasks := make([]client.Task, rowTasks)
	for i := range tasks {
		id, due := fmt.Sprintf("%s-%d", prefix, i), begin.Add(time.Duration(i)*rowEvery)
		tasks[i] = client.Task{ID: id, FireAt: due, Target: &client.Target{URL: r.url}}
		r.due[id] = due
	}
	for result := range s.client.ScheduleMany(t.Context(), slices.Values(tasks)) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// await waits until n tasks have arrived.
func (r *row) await(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d tasks of the row", n), func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.at) < n {
			return fmt.Errorf("only %d came", len(r.at))
		}
		return nil
	})
}

// off returns the largest earliness and the largest lateness of the first attempts.
func (r *row) off() (early, late time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.at {
		by := at.Sub(r.due[id])
		early, late = max(early, -by), max(late, by)
	}
	return early, late
}

// An offset is in the file at once, and only in the file of that node.
func TestClocks(t *testing.T) {
	dir := t.TempDir()
	env := slices.Grow([]string{"A=b"}, 8)
	places := []local.Place{{Env: env}, {Env: env}}
	clocks, err := shareClocks(dir, places)
	assert.NoError(t, err)
	s := &Stand{Clocks: clocks}
	t.Cleanup(func() {
		assert.Equal(t, closeAll(s.Clocks), nil)
	})
	s.Clocks["node-2"].Set(int64(-time.Hour))
	for i, want := range []time.Duration{0, -time.Hour} {
		path := filepath.Join(dir, "clocks", names(2)[i])
		data, err := os.ReadFile(path)
		assert.NoError(t, err)
		assert.Equal(t, time.Duration(binary.NativeEndian.Uint64(data)), want, "%s holds", path)
		got := []string{"A=b", "BELFRY_CLOCK_OFFSET_FILE=" + path}
		assert.EqualSlices(t, places[i].Env, got, "%s runs with", path)
	}
}

// zoned is a cluster of a shard with replicas on the given nodes, of a to e. The nodes a and b are in one zone, c and d
// in another, and e in a third. Capital letters are nodes that are down.
func zoned(replicas string) *client.Cluster {
	view := &client.Cluster{Replication: client.ReplicaCounts{Wanted: 3}}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		down := strings.Contains(replicas, strings.ToUpper(name))
		view.Nodes = append(view.Nodes, client.Node{ID: name, Zone: []string{"1", "1", "2", "2", "3"}[i], Alive: !down})
	}
	shard := client.Shard{ID: 1}
	for _, node := range strings.Split(strings.ToLower(replicas), "") {
		shard.Replicas = append(shard.Replicas, client.Replica{Node: node, Voter: true})
	}
	view.Shards = []client.Shard{shard}
	return view
}

func TestLackingReplicas(t *testing.T) {
	for _, c := range []struct {
		replicas string
		lost     []string
		want     string
	}{
		{"ace", nil, ""},
		{"acE", nil, "its node is down"},
		{"ace", []string{"e"}, "on a lost node"},
		{"abd", []string{"e"}, ""},
		{"ac", nil, "2 replicas of 3"},
		{"abc", nil, "in 2 zones, and 3 have live nodes"},
		{"acde", nil, "4 replicas of 3"},
	} {
		if got := lacking(zoned(c.replicas), c.lost); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s without %v: %q", c.replicas, c.lost, got)
		}
	}
	view := zoned("ace")
	view.Shards[0].Replicas[1].Voter = false
	if got := lacking(view, nil); !strings.Contains(got, "does not vote") {
		t.Error(got)
	}
}

func TestZonesAreEven(t *testing.T) {
	places := make([]local.Place, 5)
	zones := setZones(3, places)
	if len(zones) != 3 || strings.Join(zones[0], " ") != "node-1 node-4" || strings.Join(zones[2], " ") != "node-3" ||
		strings.Join(places[4].Args, " ") != "--zone zone-2" {
		t.Errorf("%v, %v", zones, places)
	}
	s := &Stand{zones: zones, spare: []string{"node-3"}}
	if got := s.Zones(); len(got[0]) != 2 || len(got[2]) != 0 {
		t.Errorf("%v without node-3", got)
	}
}
