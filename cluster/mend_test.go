package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

// A byte of one replica's log is damaged while its node is stopped. The other replicas outvote it, and a copy of theirs
// replaces it. A second replica, of another shard on the same node, cannot be opened at all, and is replaced as well.
func TestFaultyReplicasMend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) {
			cfg.LogStore, cfg.Shards, cfg.Calm = logstore.BoltDB, 2, 300*time.Millisecond
		})
		cmd := schedule("a", time.Hour)
		cmd.GetSchedule().Spec.Payload = []byte(`"the payload as it was sent"`)
		mustDo(t, c.Node(0), cmd)
		c.Until("leaderships are where they belong", func() error { return atHome(c.Node(0).View(t.Context())) })
		v := c.Node(0).View(t.Context())
		differs := shardOf(t, v)
		unreadable := 3 - differs.ID
		damaged := c.Index(v.Records[differs.ID].Preferred)
		id := c.Node(damaged).ID()
		c.Until("all have the task", func() error { return applied(c.Node(0).View(t.Context())) })

		c.Stop(damaged)
		replaceInFiles(t, c.DataDir(damaged), "as it was sent", "as it was read")
		spoil(t, filepath.Join(c.DataDir(damaged), "groups", fmt.Sprintf("%04d", unreadable)))
		c.Start(damaged)
		c.Until("both replicas are copies", func() error {
			v := c.Node((damaged + 1) % 3).View(t.Context())
			for _, s := range v.Shards {
				if s.Replica(id) == nil || v.Records[s.ID].Joined[id] == 0 || len(s.Target) > 0 {
					return fmt.Errorf("shard %d: %+v", s.ID, s)
				}
			}
			return errors.Join(onlyDiverged(v, differs.ID, ""), applied(v), c.Node(damaged).Ready(), atHome(v))
		})
		task, err := c.Node(damaged).Get(t.Context(), "", "a", true)
		if err != nil || string(task.GetSpec().GetPayload()) != `"the payload as it was sent"` {
			t.Errorf("the copy has %s, %v", task.GetSpec().GetPayload(), err)
		}
	})
}

// spoil makes the log of a group unreadable.
func spoil(t *testing.T, dir string) {
	t.Helper()
	found := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "log.db" {
			return err
		}
		found++
		return os.WriteFile(path, []byte("no log, no snapshot"), 0o600)
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files: %v", found, err)
	}
}
