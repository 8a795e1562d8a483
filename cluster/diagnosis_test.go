package cluster_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// awaitFindings waits until every running node finds exactly these codes.
func awaitFindings(t *testing.T, c *clustertest.Cluster, nodes []int, want ...doctor.Code) {
	t.Helper()
	c.Until(fmt.Sprint("the findings are ", want), func() error {
		for _, i := range nodes {
			found := c.Node(i).Doctor(t.Context())
			var codes []doctor.Code
			for _, f := range found {
				codes = append(codes, f.Code)
			}
			if !slices.Equal(codes, want) {
				return fmt.Errorf("node %d finds %+v", i, found)
			}
		}
		return nil
	})
}

// filling is a host whose memory is full on the third node once a channel is closed.
type filling struct {
	diskOf
	full <-chan struct{}
}

func (f filling) Heap() headroom.Heap {
	select {
	case <-f.full:
		if f.node == 2 {
			return headroom.Heap{Live: 9 << 37, Cycles: 2}
		}
	default:
	}
	return headroom.Heap{Cycles: 1}
}

// Each node finds the troubles of the others: a disk that is nearly full, a memory that is used up, a paused queue with
// tasks that are due, and a node that runs another build. Then a node and the quorum are lost, and return.
func TestDoctor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disks{free: [3]uint64{5000, 5000, 5000}}
		reserve, err := headroom.ParseReserve("1000")
		assert.NoError(t, err)
		full := make(chan struct{})
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			cfg.MinFreeDisk, cfg.Shards, cfg.Build, cfg.MemoryLimit = reserve, 2, "v1", 1<<40
			cfg.Host = filling{diskOf{headroom.System{}, d, i}, full}
			if i == 1 {
				cfg.Build = "v2"
			}
		})
		all := []int{0, 1, 2}
		awaitFindings(t, c, all, doctor.VersionsMixed)
		d.set(1, 1500)
		awaitFindings(t, c, all, doctor.DiskFilling, doctor.VersionsMixed)
		d.set(1, 900)
		awaitFindings(t, c, all, doctor.DiskFull, doctor.VersionsMixed)
		d.set(1, 5000)
		if _, err := c.Node(0).Policies().PutQueue(t.Context(), &fsmpb.QueuePolicy{Queue: "q", Namespace: "default", Paused: true}); err != nil {
			t.Fatal(err)
		}
		paused := schedule("waits", 0)
		paused.GetSchedule().Spec.Queue = "q"
		mustDo(t, c.Node(0), paused)
		awaitFindings(t, c, all, doctor.VersionsMixed, doctor.QueuePaused)
		close(full)
		awaitFindings(t, c, all, doctor.MemoryFull, doctor.VersionsMixed, doctor.QueuePaused)

		c.Crash(2)
		awaitFindings(t, c, []int{0, 1}, doctor.QuorumAtRisk, doctor.NodeAway, doctor.VersionsMixed, doctor.QueuePaused)
		c.Crash(1)
		awaitFindings(t, c, []int{0}, doctor.QuorumLost, doctor.NodeAway, doctor.NodeAway)
		for _, f := range c.Node(0).Doctor(t.Context())[1:] {
			if want := "has not answered for"; !slices.Contains([]string{"Node n1 " + want, "Node n2 " + want}, f.Summary[:len("Node n1 "+want)]) {
				t.Errorf("finds %s", f.Summary)
			}
		}
		c.Start(1)
		awaitFindings(t, c, []int{0, 1}, doctor.QuorumAtRisk, doctor.NodeAway, doctor.VersionsMixed, doctor.QueuePaused)
		c.Start(2)
		awaitFindings(t, c, all, doctor.MemoryFull, doctor.VersionsMixed, doctor.QueuePaused)
	})
}

// A zone with two nodes of three has a majority. A backup that fails is a finding until the next whole one.
func TestDoctorOfZonesAndBackups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			cfg.Shards, cfg.Zone = 1, []string{"east", "east", "west"}[i]
		})
		all := []int{0, 1, 2}
		awaitFindings(t, c, all, doctor.ZoneMajority)
		broken, closed := io.Pipe()
		_ = closed.CloseWithError(io.ErrUnexpectedEOF) // never fails
		_ = broken.Close()
		if _, err := c.Node(1).Backup(t.Context(), closed, 0); err == nil {
			t.Fatal("a backup into a closed pipe succeeded")
		}
		awaitFindings(t, c, all, doctor.BackupFailing, doctor.ZoneMajority)
		_, err := c.Node(2).Backup(t.Context(), io.Discard, 0)
		assert.NoError(t, err)
		awaitFindings(t, c, all, doctor.ZoneMajority)
	})
}

// A node that has not found its cluster says so.
func TestDoctorWithoutCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.Prepare(t, 3, nil)
		began := time.Now()
		c.Start(0)
		awaitFindings(t, c, []int{0}, doctor.NodeWaits)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("after %v", took)
		}
	})
}

// A scheduled backup that failed is a finding until the next one is kept, also after a restart of all nodes.
func TestDoctorOfScheduledBackups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, nil)
		n, now := c.Node(0), time.Now().UnixMilli()
		record := &clusterpb.Backups{LastFailed: &clusterpb.BackupTry{SeenMs: now, Error: "the bucket is gone"}}
		if changed, err := n.SetBackups(t.Context(), record); err != nil || !changed {
			t.Fatal(changed, err)
		}
		c.Stop(0)
		c.Start(0)
		c.WaitReady()
		awaitFindings(t, c, []int{0}, doctor.BackupFailing, doctor.OneReplica)
		record.Revision, record.LastKept = 1, &clusterpb.BackupTry{SeenMs: now + 1}
		if changed, err := c.Node(0).SetBackups(t.Context(), record); err != nil || !changed {
			t.Fatal(changed, err)
		}
		awaitFindings(t, c, []int{0}, doctor.OneReplica)
	})
}

// receivers fails the tasks of queue down, never answers those of queue full in time, and delivers all others.
type receivers struct{ clustertest.Receiver }

func (r *receivers) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	switch a.Task.Spec.Queue {
	case "down":
		return task.Outcome{Error: "answered 500 Internal Server Error:\nout of order"}
	case "full":
		<-ctx.Done()
		return task.Outcome{Error: "no answer"}
	}
	return task.Outcome{Delivered: true}
}

// Late tasks have one of four causes: a receiver that fails, a limit, no consumer, or a slow receiver. A limit that holds
// nothing back is none of them.
func TestDoctorOfLateQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, func(_ int, cfg *cluster.Config) { cfg.Deliver = &receivers{}; cfg.Shards = 3 })
		target := &fsmpb.Target{Url: "http://127.0.0.1:1/", TimeoutMs: 600_000}
		for _, p := range []*fsmpb.QueuePolicy{
			{Queue: "down", Target: target, MaxInFlight: 50},
			{Queue: "full", Target: target, MaxInFlight: 4},
			{Queue: "pulled", MaxInFlight: 10, MaxPerSecond: 5},
			{Queue: "sound", Target: target, MaxInFlight: 1},
		} {
			p.Namespace = "default"
			_, err := c.Node(0).Policies().PutQueue(t.Context(), p)
			assert.NoError(t, err)
			for i := range 100 {
				waits := schedule(fmt.Sprint(p.Queue, i), 0)
				waits.GetSchedule().Spec.Queue, waits.GetSchedule().Spec.Target = p.Queue, nil
				mustDo(t, c.Node(0), waits)
			}
		}
		time.Sleep(2 * time.Minute)
		var got []string
		for _, f := range c.Node(0).Doctor(t.Context()) {
			if f.Code == doctor.ReceiverBroken || strings.HasPrefix(f.Code, "queue-") {
				got = append(got, fmt.Sprint(f.Code, ": ", f.Summary))
			}
		}
		want := []string{
			"receiver-broken: Queue down: http://127.0.0.1:1/ has failed for 2m (answered 500 Internal Server Error: out " +
				"of order), and ",
			"queue-at-limit: 96 tasks of queue full are due and wait, the oldest for 2m: the queue is at its limit (4 in " +
				"flight).",
			"queue-no-consumer: 100 tasks of queue pulled are due and wait, the oldest for 2m: no consumer has a lease. Start " +
				"one, or name a receiver for the queue.",
		}
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("found\n%s", strings.Join(got, "\n"))
		}
	})
}
