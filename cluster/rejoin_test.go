package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// copyTo replaces the folder at to with a copy of a stopped node's data folder.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	assert.NoError(t, errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))))
}

func scheduleMany(t *testing.T, n *cluster.Node, prefix string, count int) {
	t.Helper()
	var cmds []*fsmpb.Command
	for i := range count {
		cmds = append(cmds, schedule(fmt.Sprint(prefix, i), time.Hour))
	}
	mustDo(t, n, cmds...)
}

// found counts the tasks that a node finds; absent counts the tasks that it reports missing.
func found(t *testing.T, n *cluster.Node, prefix string, count int) (found, absent int) {
	t.Helper()
	for i := range count {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		task, err := n.Get(ctx, "default", fmt.Sprint(prefix, i), false)
		cancel()
		switch {
		case err != nil:
		case task == nil:
			absent++
		default:
			found++
		}
	}
	return found, absent
}

// mustFind waits until a node has answered the reads of all tasks. No answer may report a task missing.
func mustFind(t *testing.T, c *clustertest.Cluster, at int, prefix string, count int) {
	t.Helper()
	c.Until("all reads are answered", func() error {
		found, absent := found(t, c.Node(at), prefix, count)
		if absent > 0 {
			t.Fatalf("%d of %d tasks %s… are not there", absent, count, prefix)
		}
		if found != count {
			return fmt.Errorf("%d of %d reads have no answer", count-found, count)
		}
		return nil
	})
}

func mustSay(c *clustertest.Cluster, n *cluster.Node, texts ...string) {
	c.Until("the node says why it does not take part", func() error {
		said := n.Barred()
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return fmt.Errorf("it says %q, without %q", said, text)
			}
		}
		return nil
	})
}

// An old copy of a node is put back while the node that could outvote it is down. No decision is made until that node
// is back, and then the copy is refused.
func TestOldCopyWaitsAndIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		c.Stop(1)
		kept := t.TempDir()
		copyTo(t, c.DataDir(1), kept)
		c.Stop(0)
		c.Start(1)
		c.WaitReady()
		scheduleMany(t, c.Node(2), "old", 60)
		c.Stop(1)
		c.Stop(2)
		copyTo(t, kept, c.DataDir(1))
		c.Start(0)
		c.Start(1)
		mustSay(c, c.Node(1), "waits for n2", "as after a copy")
		if f, absent := found(t, c.Node(0), "old", 10); f+absent > 0 {
			t.Errorf("%d of 10 tasks were found, %d were said not to be there", f, absent)
		}
		mustSay(c, c.Node(1), "waits for n2")
		c.Start(2)
		mustSay(c, c.Node(1), "does not take part", "older copy", "node n2 ", "has seen this node acknowledge")
		assert.Error(t, c.Node(1).Ready(), "it is ready")
		c.Until("the two others find all", func() error {
			if f, absent := found(t, c.Node(0), "old", 60); f != 60 {
				return fmt.Errorf("%d of 60 tasks, %d are not there", f, absent)
			}
			return errors.Join(c.Node(0).Ready(), c.Node(2).Ready())
		})
		scheduleMany(t, c.Node(0), "new", 20)
		c.Stop(1)
	})
}

// An old copy is refused at once while all other nodes run, again and again. The refusals do not keep the newest
// folder out.
func TestNewestFolderComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		c.Stop(1)
		kept := t.TempDir()
		copyTo(t, c.DataDir(1), kept)
		c.Start(1)
		c.WaitReady()
		scheduleMany(t, c.Node(2), "back", 60)
		c.Stop(1)
		newest := t.TempDir()
		copyTo(t, c.DataDir(1), newest)
		copyTo(t, kept, c.DataDir(1))
		for range 4 { // each start raises the boot number by one
			c.Start(1)
			mustSay(c, c.Node(1), "does not take part")
			c.Stop(1)
		}
		copyTo(t, newest, c.DataDir(1))
		c.Stop(0)
		c.Start(1)
		mustSay(c, c.Node(1), "waits for n0")
		c.Start(0)
		c.WaitReady()
		mustFind(t, c, 1, "back", 60)
		c.Stop(1)
		c.Stop(0)
		c.Start(1) // the folder is confirmed: a majority is enough
		c.WaitReady()
	})
}

// A copy that starts elsewhere, beside its original, is refused. The nodes of the cluster stay ready.
func TestCopyBesideItsOriginal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := clustertest.New(t, 3, nil)
		c.Stop(1)
		copyTo(t, c.DataDir(1), dir)
		c.Start(1)
		c.WaitReady()
		n, err := cluster.Open(cluster.Config{
			DataDir: dir, Name: "n1", Network: c.Network(), Join: []string{c.Node(0).PeerAddr(), c.Node(2).PeerAddr()},
			Deliver: c.Deliver, Fatal: func(err error) { t.Error(err) },
		})
		assert.NoError(t, err)
		defer n.Close(context.Background())
		mustSay(c, n, "does not take part")
		scheduleMany(t, c.Node(1), "beside", 40)
		assert.Equal(t, errors.Join(c.Node(0).Ready(), c.Node(1).Ready(), c.Node(2).Ready()), nil)
	})
}

// A node whose groups' folders were exchanged runs none of the groups.
func TestExchangedFolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fatal := make(chan error, 8)
		c := clustertest.New(t, 1, func(_ int, cfg *cluster.Config) { cfg.Fatal = func(err error) { fatal <- err } })
		scheduleMany(t, c.Node(0), "x", 20)
		c.Stop(0)
		groups := filepath.Join(c.DataDir(0), "groups")
		for _, move := range [][2]string{{"0001", "aside"}, {"0002", "0001"}, {"aside", "0002"}} {
			assert.NoError(t, os.Rename(filepath.Join(groups, move[0]), filepath.Join(groups, move[1])))
		}
		c.Damaged = true
		c.Start(0)
		assert.ErrorIs(t, <-fatal, raftdisk.ErrForeign, "fatal")
		if c.Node(0).Barred() == "" {
			t.Error("it takes part")
		}
	})
}
