package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/local/localtest"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
)

// smallDisk mounts a file system of a size in MiB, which needs root.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skipf("NOT TESTED: a node with a full disk: mounting a tmpfs needs root: %v", err)
	}
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, unix.Unmount(dir, unix.MNT_DETACH), nil, "unmounting %s", dir)
	})
	return dir
}

// fill leaves at most a number of bytes free on a disk.
func fill(t *testing.T, ballast string, leave uint64) {
	t.Helper()
	var st unix.Statfs_t
	assert.NoError(t, unix.Statfs(filepath.Dir(ballast), &st))
	free := st.Bavail * uint64(st.Bsize)
	if free <= leave {
		return
	}
	f, err := os.OpenFile(ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	assert.NoError(t, err)
	if _, err := f.Write(make([]byte, free-leave)); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	assert.Equal(t, f.Close(), nil)
}

// TestNodeRunsOutOfRoom fills a node's disk. The node gives its leaderships away when space runs low, and ends when the
// disk is full. After a restart it reports why it waits, and continues when there is space. No acknowledged task is
// lost.
func TestNodeRunsOutOfRoom(t *testing.T) {
	gated.Need(t, gated.Root)
	disk := smallDisk(t, 96)
	ballast := filepath.Join(disk, "ballast")
	cluster := startReal(t, local.Config{
		Binary: localtest.Build(t), DataDir: t.TempDir(), ExtraArgs: []string{"--shards", "3"},
		Places: []local.Place{{Data: filepath.Join(disk, "data"), Args: []string{"--min-free-disk", "32MiB"}}},
	})
	first, others := dial(t, cluster.URLs()[0]), dial(t, cluster.URLs()[1:]...)
	tasks := 0
	put := func(c *client.Client, payload int) {
		t.Helper()
		task := client.Task{
			ID: fmt.Sprint("task-", tasks), Delay: time.Hour, Payload: []byte(`"` + strings.Repeat("x", payload) + `"`)}
		_, err := c.Schedule(t.Context(), task)
		assert.NoError(t, err)
		tasks++
	}
	for range 30 {
		put(first, 10)
	}

	fill(t, ballast, 20<<20)
	until(t, "the node leads nothing", func() error { return leadsNothing(t, others, "node-1") })
	for range 30 { // the node still forwards calls
		put(first, 10)
	}

	fill(t, ballast, 0)
	until(t, "the node ends", func() error {
		put(others, 200<<10)
		if cluster.Nodes()[0].PID != 0 {
			return fmt.Errorf("the node still runs after %d tasks", tasks)
		}
		return nil
	})
	readAll(t, others, tasks)

	started := make(chan error, 1)
	go func() { started <- cluster.StartNode(t.Context(), "node-1") }()
	until(t, "it says why it waits", func() error { return waits(t, cluster.URLs()[0]) })
	waiting := cluster.Nodes()[0].PID
	put(others, 10)
	assert.NoError(t, os.Remove(ballast))
	assert.NoError(t, <-started)
	if pid := cluster.Nodes()[0].PID; pid != waiting {
		t.Errorf("process %d waited, but process %d runs", waiting, pid)
	}
	put(first, 10)
	readAll(t, first, tasks)
	until(t, "the replicas are equal", func() error { return equalReplicas(t, first) })
}

// TestStartWithoutRoom fills the disk at different points of a node's first start. The node stays alive, reports why it
// is not ready, and starts when there is space. A restart on a full disk behaves the same way.
func TestStartWithoutRoom(t *testing.T) {
	gated.Need(t, gated.Root)
	binary := localtest.Build(t)
	for _, kib := range []int{4<<10 + 8, 5 << 10, 8 << 10, 12 << 10, 16 << 10} {
		t.Run(fmt.Sprint(kib, "KiB"), func(t *testing.T) { startOnSmallDisk(t, binary, kib) })
	}
}

func startOnSmallDisk(t *testing.T, binary string, kib int) {
	disk := smallDisk(t, 256)
	resize := func(kib int) {
		t.Helper()
		assert.NoError(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%dk", kib)))
	}
	resize(kib)
	port, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	addr := port.Addr().String()
	assert.NoError(t, port.Close())
	cfg := local.Config{
		Nodes: 1, Binary: binary, DataDir: t.TempDir(), ExtraArgs: []string{"--shards", "3", "--min-free-disk", "0"},
		Places: []local.Place{{HTTPAddr: addr, Data: filepath.Join(disk, "data")}},
	}
	var cluster *local.Cluster
	started := make(chan struct{})
	go func() {
		cluster, err = local.Start(t.Context(), cfg)
		close(started)
	}()
	until(t, "it says what it lacks", func() error {
		select {
		case <-started:
			t.Fatalf("the start ended on a disk of %d KiB: %v", kib, err)
		default:
		}
		return unready(t, "http://"+addr+"/readyz", "no space left on device")
	})
	resize(256 << 10)
	<-started
	assert.NoError(t, err)
	t.Cleanup(cluster.Stop)
	c := dial(t, cluster.URLs()...)
	if _, err := c.Schedule(t.Context(), client.Task{ID: "task-0", Delay: time.Hour}); err != nil {
		t.Error(err)
	}

	assert.NoError(t, cluster.Terminate("node-1"))
	ballast := filepath.Join(disk, "ballast")
	fill(t, ballast, 0)
	assert.NoError(t, cluster.Launch("node-1"))
	until(t, "it says why it waits", func() error { return waits(t, cluster.URLs()[0]) })
	assert.NoError(t, os.Remove(ballast))
	assert.NoError(t, cluster.AwaitReady(t.Context(), "node-1"))
	readAll(t, c, 1)
}

func leadsNothing(t *testing.T, c *client.Client, name string) error {
	view, err := c.Cluster(t.Context())
	if err != nil {
		return err
	}
	for _, s := range view.Shards {
		if node := view.Node(s.Leader); node == nil || node.Name == name {
			return fmt.Errorf("shard %d is led by %q", s.ID, s.Leader)
		}
	}
	for _, n := range view.Nodes {
		if n.DiskLow != (n.Name == name) {
			return fmt.Errorf("%s: low disk: %v", n.Name, n.DiskLow)
		}
	}
	return nil
}

// waits checks that the node answers its health pages and a call with the reason.
func waits(t *testing.T, url string) error {
	for _, path := range []string{"/healthz", "/readyz", "/v1/tasks/task-1"} {
		if err := unready(t, url+path, "too little room"); err != nil {
			return err
		}
	}
	return nil
}

// unready checks that the answer is 503 with a reason.
func unready(t *testing.T, url, reason string) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	assert.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), reason) {
		return fmt.Errorf("%s: %d %s", url, resp.StatusCode, body)
	}
	return nil
}

func equalReplicas(t *testing.T, c *client.Client) error {
	view, err := c.Cluster(t.Context())
	if err != nil {
		return err
	}
	for _, s := range view.Shards {
		for _, r := range s.Replicas {
			if r.Diverged {
				t.Fatalf("shard %d at %s has diverged", s.ID, r.Node)
			}
			if first := s.Replicas[0]; r.Hash == "" || r.Applied != first.Applied || r.Hash != first.Hash {
				return fmt.Errorf("shard %d: %+v", s.ID, s.Replicas)
			}
		}
	}
	return nil
}
