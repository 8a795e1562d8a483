package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

// A byte of one node's log is damaged while the node is stopped, in a log without checksums. Within seconds of its
// start, the node and the other nodes of the shard know that its replica is the wrong one. The replica neither leads
// nor answers stale reads. With the byte restored, the replica agrees after one more start.
func TestDamagedReplicaIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) {
			cfg.LogStore, cfg.Shards, cfg.Calm = logstore.BoltDB, 2, time.Hour // the replica is not mended
		})
		c.Damaged = true
		cmd := schedule("a", time.Hour)
		cmd.GetSchedule().Spec.Payload = []byte(`"the payload as it was sent"`)
		mustDo(t, c.Node(0), cmd)
		c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(t.Context())) })
		v := c.Node(0).View(t.Context())
		shard := shardOf(t, v)
		damaged := c.Index(v.Records[shard.ID].Preferred)
		id := c.Node(damaged).ID()
		c.Until("all have the task", func() error { return applied(c.Node(0).View(t.Context())) })

		c.Stop(damaged)
		replaceInFiles(t, c.DataDir(damaged), "as it was sent", "as it was read")
		began := time.Now()
		c.Start(damaged)
		c.WaitReady()
		for i := range 3 {
			c.Until(fmt.Sprintf("node %d knows", i), func() error {
				return onlyDiverged(c.Node(i).View(t.Context()), shard.ID, id)
			})
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("found %v after the start", took)
		}
		c.Until("it is outvoted", func() error {
			if metric(t, c.Registry(damaged), "belfry_replica_outvoted") != 1 {
				return errors.New("not in the metrics yet")
			}
			return nil
		})
		if n := metric(t, c.Registry(damaged), "belfry_replica_divergence"); n != 2 {
			t.Errorf("it differs from %v replicas, by its metrics", n)
		}
		stays(t, c, damaged, shard.ID)
		task, err := c.Node(damaged).Get(t.Context(), "", "a", true)
		if err != nil || string(task.GetSpec().GetPayload()) != `"the payload as it was sent"` {
			t.Errorf("a stale read through the damaged node: %s, %v", task.GetSpec().GetPayload(), err)
		}

		c.Stop(damaged)
		replaceInFiles(t, c.DataDir(damaged), "as it was read", "as it was sent")
		c.Start(damaged)
		c.WaitReady()
		for i := range 3 {
			c.Until(fmt.Sprintf("node %d knows that it is mended", i), func() error {
				return onlyDiverged(c.Node(i).View(t.Context()), shard.ID, "")
			})
		}
		c.Until("it leads again", func() error { return atHome(c.Node(0).View(t.Context())) })
	})
}

// stays checks that other nodes lead the shard and carry out calls, although placement prefers this node as the
// leader.
func stays(t *testing.T, c *clustertest.Cluster, damaged int, shard uint32) {
	t.Helper()
	calm := time.After(5 * time.Second) // longer than a leadership takes to return to its preferred node
	for n := 0; ; n++ {
		mustDo(t, c.Node(n%3), schedule(fmt.Sprint("b", n), time.Hour))
		if v := c.Node(n % 3).View(t.Context()); v.Shards[shard-1].Leader == c.Node(damaged).ID() {
			t.Fatalf("the damaged replica leads: %+v", v.Shards[shard-1])
		} else if err := onlyDiverged(v, shard, c.Node(damaged).ID()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-calm:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shardOf returns the shard that has a task.
func shardOf(t *testing.T, v cluster.View) view.Shard {
	t.Helper()
	i := slices.IndexFunc(v.Shards, func(s view.Shard) bool { return s.Tasks > 0 })
	if i < 0 {
		t.Fatal("no shard has the task")
	}
	return v.Shards[i]
}

func applied(v cluster.View) error {
	for _, s := range v.Shards {
		for _, r := range s.Replicas {
			if r.Applied != s.Replicas[0].Applied {
				return fmt.Errorf("shard %d: %+v", s.ID, s.Replicas)
			}
		}
	}
	return nil
}

// onlyDiverged returns an error unless exactly that shard's replica on that node is shown as diverged. With an empty
// node, no replica may be.
func onlyDiverged(v cluster.View, shard uint32, node string) error {
	for _, s := range v.Shards {
		for _, r := range s.Replicas {
			if want := s.ID == shard && r.Node == node; r.Diverged != want {
				return fmt.Errorf("shard %d at %s: diverged is %v", s.ID, r.Node, r.Diverged)
			}
		}
	}
	return nil
}

// replaceInFiles replaces a text in every file that contains it.
func replaceInFiles(t *testing.T, dir, from, to string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(from)) {
			return err
		}
		found++
		return os.WriteFile(path, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600)
	})
	assert.NoError(t, err)
	if found == 0 {
		t.Fatalf("no file under %s has %q", dir, from)
	}
}
