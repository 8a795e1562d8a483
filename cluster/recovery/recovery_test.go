package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

// mustSchedule schedules a task and returns its revision.
func mustSchedule(t *testing.T, n *cluster.Node, id string) uint64 {
	t.Helper()
	now := time.Now()
	reply := n.Do(t.Context(), []*fsmpb.Command{{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec:     &fsmpb.Spec{Target: &fsmpb.Target{Url: "http://127.0.0.1:1/"}},
		FireAtMs: now.Add(time.Hour).UnixMilli(), ReceivedAtMs: now.UnixMilli(),
	}}}})[0]
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	return reply.Result.Revision
}

// shardOf returns the shard of a task's id.
func shardOf(v cluster.View, id string) view.Shard {
	slot := task.Slot("", id)
	i := slices.IndexFunc(v.Shards, func(s view.Shard) bool { return s.Owns(slot) })
	return v.Shards[i]
}

// open opens a recovery, and closes it at the end of the test.
func open(t *testing.T, dirs ...string) *recovery.Recovery {
	t.Helper()
	r, err := recovery.Open(t.Context(), recovery.Config{Dirs: dirs, Temp: t.TempDir()})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, r.Close(), nil)
	})
	return r
}

// start starts the node of a recovered folder, and waits until it serves.
func start(t *testing.T, dir string) *cluster.Node {
	t.Helper()
	n, err := cluster.Open(cluster.Config{
		DataDir: dir, Name: "recovered", Network: memnet.New(), Deliver: &clustertest.Receiver{}, MinFreeDisk: headroom.NoReserve(),
		Fatal: func(err error) { t.Errorf("fatal: %v", err) },
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, n.Close(context.Background()), nil)
	})
	ready := func() bool {
		return n.Ready() == nil && n.Do(t.Context(), []*fsmpb.Command{{Id: "probe",
			Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}})[0].Err == nil
	}
	for began := time.Now(); !ready(); {
		if time.Since(began) > 30*time.Second { // of the bubble's clock
			t.Fatalf("not ready: %v", n.Ready())
		}
		time.Sleep(10 * time.Millisecond)
	}
	return n
}

// five is a cluster of five nodes that lost three. Node 1 was down when the later tasks were scheduled.
type five struct {
	cluster      *clustertest.Cluster
	view         cluster.View
	early, later map[string]uint64 // revisions by id
}

func loseThreeOfFive(t *testing.T) *five {
	t.Helper()
	c := clustertest.New(t, 5, func(_ int, cfg *cluster.Config) { cfg.Shards = 10 })
	f := &five{cluster: c, view: c.Node(0).View(t.Context()), early: map[string]uint64{}, later: map[string]uint64{}}
	for i := range 100 {
		id := fmt.Sprint("early-", i)
		f.early[id] = mustSchedule(t, c.Node(0), id)
	}
	c.WaitAgree(c.Node(0))
	c.Stop(1)
	for i := range 100 {
		id := fmt.Sprint("later-", i)
		f.later[id] = mustSchedule(t, c.Node(0), id)
	}
	c.WaitAgree(c.Node(0))
	for _, i := range []int{0, 2, 3, 4} {
		c.Stop(i)
	}
	return f
}

// holds reports whether a node has a replica of a shard.
func (f *five) holds(s view.Shard, i int) bool {
	id := f.nodeID(i)
	return slices.ContainsFunc(s.Replicas, func(r view.Replica) bool { return r.Node == id })
}

func (f *five) nodeID(i int) string {
	name := fmt.Sprint("n", i)
	return f.view.Nodes[slices.IndexFunc(f.view.Nodes, func(n view.Node) bool { return n.Name == name })].ID
}

// Of a cluster of five, nodes 0 and 1 are left, and node 1 is behind. The newest replica of each shard is kept, the plan
// states the loss of each shard, and the recovered node serves exactly the rest.
func TestTwoOfFive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := loseThreeOfFive(t)
		dirs := []string{f.cluster.DataDir(0), f.cluster.DataDir(1)}
		r := open(t, dirs[1], dirs[0])
		losses := make(map[recovery.Loss]int)
		for _, g := range r.Plan().Groups {
			if g.Loss == recovery.Certain && g.LeastMissing() > 0 {
				g.Loss = recovery.Possible // the node that was stopped saw its successor as leader begin
			}
			losses[g.Loss]++
			if g.Number == 0 {
				continue
			}
			s := f.view.Shards[g.Number-1]
			from, loss := "", recovery.Whole
			switch on0, on1 := f.holds(s, 0), f.holds(s, 1); {
			case on0 && on1:
				from, loss = dirs[0], recovery.None
			case on0:
				from, loss = dirs[0], recovery.Possible
			case on1:
				from, loss = dirs[1], recovery.Possible
			}
			if g.From != from || g.Loss != loss {
				t.Errorf("shard %d: %+v, want loss %s, newest in %s", g.Number, g, loss, from)
			}
		}
		if losses[recovery.None] == 0 || losses[recovery.Possible] == 0 || losses[recovery.Whole] == 0 {
			t.Errorf("not all kinds of loss: %v", losses)
		}
		f.checkRecovered(t, r)
	})
}

// checkRecovered writes a recovery and checks that its node has each task that a survivor had.
func (f *five) checkRecovered(t *testing.T, r *recovery.Recovery) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	made, err := r.Write(t.Context(), dir)
	assert.NoError(t, err)
	n := start(t, dir)
	if n.ID() != made.NodeID || n.ClusterID() != made.ClusterID || made.ClusterID == r.Plan().ClusterID {
		t.Errorf("node %s of cluster %s, made %+v of %s", n.ID(), n.ClusterID(), made, r.Plan().ClusterID)
	}
	check := func(id string, revision uint64, want bool) {
		t.Helper()
		found, err := n.Get(t.Context(), "", id, false)
		if err != nil || (found != nil) != want || want && found.Revision != revision {
			t.Errorf("%s of shard %d: %v, %v; want it: %t", id, shardOf(f.view, id).ID, found, err, want)
		}
	}
	for id, revision := range f.early {
		s := shardOf(f.view, id)
		check(id, revision, f.holds(s, 0) || f.holds(s, 1))
	}
	for id, revision := range f.later {
		check(id, revision, f.holds(shardOf(f.view, id), 0))
	}
	for id := range f.early {
		if again := mustSchedule(t, n, id); again < 1<<40 {
			t.Errorf("%s of shard %d has revision %d, which the lost nodes may have given", id, shardOf(f.view, id).ID, again)
		}
	}
}

// A folder whose log went back in time is not used.
func TestFolderThatWentBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		kept := filepath.Join(t.TempDir(), "kept")
		mustSchedule(t, c.Node(0), "early")
		c.Stop(2)
		assert.NoError(t, os.CopyFS(kept, os.DirFS(c.DataDir(2))))
		c.Start(2)
		c.WaitReady()
		for i := range 50 {
			mustSchedule(t, c.Node(0), fmt.Sprint("later-", i))
		}
		for i := range 3 {
			c.Stop(i)
		}
		// The disk of node 2 goes back in time, but for its records of the others.
		witness, err := os.ReadFile(filepath.Join(c.DataDir(2), "witness"))
		assert.NoError(t, err)
		assert.NoError(t, os.WriteFile(filepath.Join(kept, "witness"), witness, 0o600))
		_, err = recovery.Open(t.Context(), recovery.Config{Dirs: []string{kept}})
		var damaged *recovery.DamagedError
		if !errors.As(err, &damaged) || !strings.Contains(err.Error(), kept) || !strings.Contains(err.Error(), "own record") {
			t.Errorf("a folder that went back in time: %v", err)
		}
	})
}

// A recovery that was interrupted leaves a folder that no node opens, and may be repeated into it. The folders of the
// survivors are not changed, and cannot be used while the recovery has them open.
func TestInterruptedRecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		want := mustSchedule(t, c.Node(0), "kept")
		for i := range 3 {
			c.Stop(i)
		}
		before := listing(t, c.DataDir(0))
		r := open(t, c.DataDir(0))
		dir := filepath.Join(t.TempDir(), "new")
		cut, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Write(cut, dir); !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted recovery: %v", err)
		}
		cfg := cluster.Config{DataDir: dir, Deliver: &clustertest.Receiver{}, Fatal: func(error) {}}
		if _, err := cluster.Open(cfg); err == nil || !strings.Contains(err.Error(), "was not finished") {
			t.Errorf("a node opened what an interrupted recovery has left: %v", err)
		}
		cfg.DataDir = c.DataDir(0)
		if _, err := cluster.Open(cfg); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("a node opened the folder of a survivor meanwhile: %v", err)
		}
		if _, err := r.Write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		if after := listing(t, c.DataDir(0)); !slices.Equal(before, after) {
			t.Errorf("the survivor's folder had\n%v\nand has\n%v", before, after)
		}
		if _, err := r.Write(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("a recovery over a node's folder: %v", err)
		}
		found, err := start(t, dir).Get(t.Context(), "", "kept", false)
		if err != nil || found.GetRevision() != want {
			t.Errorf("%v, %v; want revision %d", found, err, want)
		}
	})
}

// listing returns the paths, sizes and times of all files in a folder.
func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			all = append(all, fmt.Sprint(path, " ", info.Size(), " ", info.ModTime()))
		}
		return err
	})
	assert.NoError(t, err)
	return all
}

func TestRefusedFolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		alone := clustertest.New(t, 1, func(_ int, cfg *cluster.Config) { cfg.Shards = 1 })
		for i := range 3 {
			c.Stop(i)
		}
		alone.Stop(0)
		copied := filepath.Join(t.TempDir(), "copy")
		assert.NoError(t, os.CopyFS(copied, os.DirFS(c.DataDir(0))))
		for says, dirs := range map[string][]string{
			"no data folder is given":        nil,
			"is no node's data folder":       {t.TempDir()},
			"all must be of one":             {c.DataDir(0), alone.DataDir(0)},
			"folders of the same node":       {c.DataDir(0), copied},
			recovery.ErrNotLost.Error():      {c.DataDir(0), c.DataDir(2)},
			recovery.ErrNotLost.Error()[:20]: {alone.DataDir(0)},
		} {
			if _, err := recovery.Open(t.Context(), recovery.Config{Dirs: dirs}); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v, want %q", dirs, err, says)
			}
		}
	})
}
