package recovery_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/cluster/recovery"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

func schedule(id, queue string, delay time.Duration) *fsmpb.Command {
	now := time.Now()
	return &fsmpb.Command{Id: id, Key: &fsmpb.Key{Hash: 7, Call: 8}, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec:     &fsmpb.Spec{Queue: queue, Payload: []byte(id)},
		FireAtMs: now.Add(delay).UnixMilli(), ReceivedAtMs: now.UnixMilli(),
	}}}
}

func do(t *testing.T, n *cluster.Node, cmds ...*fsmpb.Command) {
	t.Helper()
	for _, r := range n.Do(t.Context(), cmds) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

const later = 300

// used is a cluster of three nodes with policies, and tasks of two queues in several states.
func used(t *testing.T) *clustertest.Cluster {
	t.Helper()
	c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 4 })
	n := c.Node(0)
	for _, p := range []*fsmpb.QueuePolicy{
		{Namespace: "default", Queue: "work", Secrets: [][]byte{bytes.Repeat([]byte("s"), 32)}, KeepDoneMs: 3600_000},
		{Namespace: "default", Queue: "held", Paused: true, Target: &fsmpb.Target{Url: "https://shop.example"}},
	} {
		_, err := n.Policies().PutQueue(t.Context(), p)
		assert.NoError(t, err)
	}
	var cmds []*fsmpb.Command
	for i := range later {
		cmds = append(cmds, schedule(fmt.Sprint("later-", i), []string{"work", "other"}[i%2], time.Hour+time.Duration(i)*time.Millisecond))
	}
	for i := range 40 {
		cmds = append(cmds, schedule(fmt.Sprint("due-", i), "work", 0), schedule(fmt.Sprint("held-", i), "held", 0))
	}
	do(t, n, cmds...)
	lease(t, n, 20)
	c.Until("the leases that no consumer took are given back", func() error {
		_, counts, err := n.Queue(t.Context(), "default", "work")
		if err == nil && counts.Leased != 18 {
			err = fmt.Errorf("%d tasks are leased", counts.Leased)
		}
		return err
	})
	do(t, n, &fsmpb.Command{Id: "later-0", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
	return c
}

// lease leases tasks of the queue "work", acknowledges one of them, and gives up another.
func lease(t *testing.T, n *cluster.Node, count int) {
	t.Helper()
	var tasks []*fsmpb.Task
	for len(tasks) < count {
		got, err := n.Lease(t.Context(), task.LeaseRequest{Namespace: "default", Queue: "work", Max: count - len(tasks), Lease: time.Hour})
		assert.NoError(t, err)
		tasks = append(tasks, got...)
		time.Sleep(10 * time.Millisecond) // of the bubble's clock
	}
	for i, verdict := range []fsmpb.Verdict{fsmpb.Verdict_VERDICT_DELIVERED, fsmpb.Verdict_VERDICT_DEAD} {
		do(t, n, &fsmpb.Command{Id: tasks[i].Id, Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
			Fence: tasks[i].Fence, Occurrence: tasks[i].Occurrence, Verdict: verdict, Consumer: true, Error: "refused",
		}}})
	}
}

func backupOf(t *testing.T, n *cluster.Node) []byte {
	t.Helper()
	var out bytes.Buffer
	summary, err := n.Backup(t.Context(), &out, 0)
	assert.NoError(t, err)
	report, err := recovery.VerifyBackup(t.Context(), bytes.NewReader(out.Bytes()))
	if err != nil || !report.Sound() || report.SHA256 != summary.SHA256 || len(report.Shards) != 4 {
		t.Fatalf("%+v, %v", report, err)
	}
	return out.Bytes()
}

// all returns the tasks of a cluster by id, without their shards.
func all(t *testing.T, n *cluster.Node) map[string]*fsmpb.Task {
	t.Helper()
	found := map[string]*fsmpb.Task{}
	for q := (&fsmpb.ListQuery{Limit: 1000, IncludePayload: true}); ; {
		page, err := n.List(t.Context(), q, false)
		assert.NoError(t, err)
		for _, v := range page.Tasks {
			v.Shard = 0
			found[v.Id] = v
		}
		if !page.More {
			return found
		}
		q.Slot, q.AfterId = page.Slot, page.AfterId
	}
}

// givenBack returns a task as it must be after its lease was given back, except for its revision.
func givenBack(v *fsmpb.Task) *fsmpb.Task {
	v.State, v.Leased, v.LeaseEndMs, v.Revision = fsmpb.State_STATE_READY, false, 0, 0
	v.Attempts--
	return v
}

// started restores a backup and starts the node.
func started(t *testing.T, data []byte, cfg recovery.RestoreConfig) (*clustertest.Cluster, *recovery.RestoreReport) {
	t.Helper()
	c := clustertest.Prepare(t, 1, nil)
	cfg.From, cfg.Dir = bytes.NewReader(data), c.DataDir(0)
	report, err := recovery.Restore(t.Context(), cfg)
	assert.NoError(t, err)
	if folder, err := recovery.VerifyFolder(t.Context(), cfg.Dir, ""); err != nil || !folder.Sound() {
		t.Fatalf("the folder: %+v, %v", folder, err)
	}
	c.Start(0)
	c.WaitReady()
	return c, report
}

func TestRestoreIntoAnotherShape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := used(t)
		data := backupOf(t, old.Node(1))
		before := all(t, old.Node(0))
		firing := 0
		for _, shards := range []int{1, 5, 12} {
			c, report := started(t, data, recovery.RestoreConfig{Shards: shards})
			n := c.Node(0)
			if n.ClusterID() == old.Node(0).ClusterID() || n.ClusterID() != report.ClusterID || report.From != old.Node(0).ClusterID() ||
				n.ID() != report.NodeID {
				t.Errorf("restored as %+v", report)
			}
			v := n.View(t.Context())
			assert.Equal(t, len(v.Shards), shards, "shards")
			after := all(t, n)
			assert.Equal(t, len(after), len(before), "tasks")
			for id, was := range before {
				is := after[id]
				was = proto.CloneOf(was)
				if was.State == fsmpb.State_STATE_FIRING {
					firing++
					was = givenBack(was)
					is.Revision = 0
				}
				if !proto.Equal(was, is) {
					t.Errorf("before %v\nafter  %v", was, is)
				}
			}
			if report.GivenBack != 18 || report.Overdue != 0 || report.Tasks["firing"] != 18 {
				t.Errorf("%+v", report)
			}
			for _, queue := range []string{"work", "held"} {
				want, _, err := old.Node(0).Queue(t.Context(), "default", queue)
				assert.NoError(t, err)
				if got, _, err := n.Queue(t.Context(), "default", queue); err != nil || !proto.Equal(got, want) {
					t.Errorf("policy %v, %v, want %v", got, err, want)
				}
			}
			again := n.Do(t.Context(), []*fsmpb.Command{schedule("later-7", "other", time.Hour+7*time.Millisecond)})[0]
			if again.Err != nil || !again.Result.Repeated || again.Result.Revision != before["later-7"].Revision {
				t.Errorf("the call of before the backup, repeated: %+v", again)
			}
			lease(t, n, 30)
		}
		assert.Equal(t, firing, 3*18, "tasks were leased")
	})
}

// restored starts a cluster of one from a backup. Other nodes can join it.
func restored(t *testing.T, backup []byte) *clustertest.Cluster {
	t.Helper()
	c := clustertest.Prepare(t, 1, func(i int, cfg *cluster.Config) {
		cfg.BootstrapExpect = 0
		if i == 0 {
			cfg.Join = nil
		}
	})
	cfg := recovery.RestoreConfig{From: bytes.NewReader(backup), Dir: c.DataDir(0), Shards: 3}
	_, err := recovery.Restore(t.Context(), cfg)
	assert.NoError(t, err)
	c.Start(0)
	c.WaitReady()
	return c
}

// A restored cluster of one takes other nodes, and keeps its data over a restart.
func TestRestoredClusterGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := restored(t, backupOf(t, used(t).Node(0)))
		c.Start(c.Add())
		c.WaitReady()
		got := c.Node(1)
		assert.Equal(t, got.ClusterID(), c.Node(0).ClusterID(), "the second node is in cluster")
		c.Stop(0)
		c.Start(0)
		c.WaitReady()
		if v, err := c.Node(1).Get(t.Context(), "", "later-9", false); err != nil || v.GetState() != fsmpb.State_STATE_SCHEDULED {
			t.Errorf("%v, %v", v, err)
		}
	})
}

// A copy of a restored folder is recognised as an old one, once another node has seen the folder acknowledge more.
func TestOldCopyOfARestoredFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := restored(t, backupOf(t, used(t).Node(0)))
		for range 2 {
			c.Start(c.Add())
		}
		c.WaitReady()
		c.Until("three nodes vote in each shard", func() error {
			for _, s := range c.Node(1).View(t.Context()).Shards {
				waits := func(r view.Replica) bool { return !r.Voter }
				if len(s.Replicas) != 3 || len(s.Target) > 0 || slices.ContainsFunc(s.Replicas, waits) {
					return fmt.Errorf("shard %d has the replicas %+v", s.ID, s.Replicas)
				}
			}
			return nil
		})
		c.Stop(0)
		kept := filepath.Join(t.TempDir(), "kept")
		assert.NoError(t, os.CopyFS(kept, os.DirFS(c.DataDir(0))))
		c.Start(0)
		c.WaitReady()
		do(t, c.Node(1), schedule("new", "work", time.Hour))
		c.Stop(0)
		assert.NoError(t, errors.Join(os.RemoveAll(c.DataDir(0)), os.CopyFS(c.DataDir(0), os.DirFS(kept))))
		c.Damaged = true // the copy answers nothing
		n := c.Start(0)
		c.Until("the copy is refused", func() error {
			if said := n.Barred(); !strings.Contains(said, "older copy") {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
		if v, err := c.Node(1).Get(t.Context(), "", "new", false); err != nil || v == nil {
			t.Errorf("%v, %v", v, err)
		}
	})
}

func TestOverdueTasks(t *testing.T) {
	t.Parallel()
	var data []byte
	synctest.Test(t, func(t *testing.T) { data = backupOf(t, used(t).Node(2)) })
	overdue := func(name string, test func(t *testing.T, now time.Time)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, time.Now().Add(2*time.Hour)) })
		})
	}
	overdue("dead", func(t *testing.T, now time.Time) {
		c, report := started(t, data, recovery.RestoreConfig{Shards: 4, Overdue: recovery.Dead, Now: now})
		if report.Overdue != later-1 || report.Buried != later-1 {
			t.Errorf("%+v", report)
		}
		v, err := c.Node(0).Get(t.Context(), "", "later-3", false)
		if err != nil || v.State != fsmpb.State_STATE_DEAD || !strings.Contains(v.LastError, "before its restore") {
			t.Errorf("%v, %v", v, err)
		}
	})
	overdue("hold", func(t *testing.T, now time.Time) {
		c, report := started(t, data, recovery.RestoreConfig{Shards: 4, Overdue: recovery.Hold, Now: now})
		paused := map[string]bool{}
		for _, q := range report.Queues {
			paused[q.Queue] = q.Paused
		}
		if len(paused) != 3 || !paused["work"] || !paused["other"] || paused["held"] {
			t.Errorf("%+v", report.Queues) // held was paused before
		}
		for _, queue := range []string{"work", "other", "held"} {
			policy, _, err := c.Node(0).Queue(t.Context(), "default", queue)
			if err != nil || !policy.GetPaused() {
				t.Errorf("%s: %v, %v", queue, policy, err)
			}
		}
	})
	overdue("fire", func(t *testing.T, now time.Time) {
		_, report := started(t, data, recovery.RestoreConfig{Shards: 4, Now: now})
		if report.Overdue != later-1 || report.Buried != 0 {
			t.Errorf("%+v", report)
		}
	})
}

func TestRestoreWantsAnEmptyFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := backupOf(t, used(t).Node(0))
		dir := t.TempDir()
		file := filepath.Join(dir, "notes.txt")
		assert.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
		cfg := recovery.RestoreConfig{From: bytes.NewReader(data), Dir: dir}
		if _, err := recovery.Restore(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "notes.txt") {
			t.Errorf("into a folder with a file: %v", err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		c := clustertest.Prepare(t, 1, nil)
		cfg = recovery.RestoreConfig{From: bytes.NewReader(data[:len(data)-100]), Dir: c.DataDir(0)}
		if _, err := recovery.Restore(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("of half a backup: %v", err)
		}
		if _, err := cluster.Open(cluster.Config{
			DataDir: cfg.Dir, Name: "n", Deliver: c.Deliver, Fatal: func(error) {},
		}); err == nil || !strings.Contains(err.Error(), "restore") {
			t.Errorf("a node opened the folder of a restore that failed: %v", err)
		}
		assert.NoError(t, errors.Join(os.MkdirAll(filepath.Join(cfg.Dir, "groups", "0001"), 0o700)))
		cfg.From = bytes.NewReader(data)
		_, err := recovery.Restore(t.Context(), cfg)
		assert.NoError(t, err, "the restore, repeated")
		c.Start(0)
		c.WaitReady()
	})
}
