package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// disks simulates the disks of the nodes, with the free space that the test sets.
type disks struct {
	mu   sync.Mutex
	free [3]uint64
}

func (d *disks) set(i int, free uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free[i] = free
}

// diskOf is a host with the disk of one node.
type diskOf struct {
	headroom.Host
	*disks
	node int
}

func (d diskOf) Space() (headroom.Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return headroom.Space{Free: d.free[d.node], Total: 10000}, nil
}

// While one of three disks is nearly full, its node leads no shard, and no caller notices. With two full disks no task
// can be scheduled, and all other calls go on. With room again all calls succeed.
func TestDisksFill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disks{free: [3]uint64{5000, 5000, 5000}}
		reserve, err := headroom.ParseReserve("1000")
		assert.NoError(t, err)
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			cfg.MinFreeDisk, cfg.Host, cfg.Shards = reserve, diskOf{headroom.System{}, d, i}, 3
		})
		home := func() error { return atHome(c.Node(0).View(t.Context())) }
		c.Until("leaderships are where they belong", home)
		mustDo(t, c.Node(0), schedule("kept", time.Hour), schedule("late", 10*time.Second), schedule("gone", time.Hour))

		d.set(1, 999)
		c.Until("node 1 leads nothing", func() error { return leadsNothing(c, 1) })
		calm := time.After(6 * time.Second) // longer than a leadership takes to return to its preferred node
		for i, waiting := 0, true; waiting; i++ {
			mustDo(t, c.Node(i%3), schedule(fmt.Sprint("task-", i), time.Hour))
			assert.NoError(t, leadsNothing(c, 1))
			select {
			case <-calm:
				waiting = false
			case <-time.After(50 * time.Millisecond):
			}
		}
		v := c.Node(0).View(t.Context())
		assert.Equal(t, diskLow(v), c.Node(1).ID()+" ", "nodes shown with a low disk")

		d.set(2, 10)
		c.Until("nothing is scheduled any more", func() error {
			for i := range 12 { // over all shards
				if err := do(c.Node(i%3), schedule(fmt.Sprint("more-", i), time.Hour)); !errors.Is(err, task.ErrNoRoom) {
					return fmt.Errorf("more-%d: %w", i, err)
				}
			}
			return nil
		})
		for name, cmd := range map[string]*fsmpb.Command{
			"cancel":          {Id: "gone", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}},
			"patch of a time": {Id: "kept", Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{FireAtMs: proto.Int64(9e12)}}},
			"fire now":        {Id: "task-1", Op: &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}},
		} {
			assert.Equal(t, do(c.Node(1), cmd), nil, "%s", name)
		}
		assert.ErrorIs(t, do(c.Node(0), touchOrSchedule("new")), task.ErrNoRoom, "a touch that would schedule")
		c.Until("the due tasks are delivered", func() error {
			if c.Deliver.Attempts("late") != 1 || c.Deliver.Attempts("task-1") != 1 {
				return errors.New("not yet")
			}
			return nil
		})

		d.set(1, 1200)
		c.Until("between the bounds it is as low as it was", func() error {
			if err := do(c.Node(0), schedule("more", time.Hour)); !errors.Is(err, task.ErrNoRoom) {
				return fmt.Errorf("scheduled: %w", err)
			}
			return nil
		})
		d.set(1, 1250)
		d.set(2, 5000)
		c.Until("there is room again", func() error { return do(c.Node(0), schedule("more", time.Hour)) })
		c.Until("leaderships are where they belong", home)
	})
}

func do(n *cluster.Node, cmd *fsmpb.Command) error {
	return n.Do(context.Background(), []*fsmpb.Command{cmd})[0].Err
}

func touchOrSchedule(id string) *fsmpb.Command {
	s := schedule(id, time.Hour)
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Touch{Touch: &fsmpb.Touch{
		DelayMs: proto.Int64(1000), ReceivedAtMs: s.GetSchedule().ReceivedAtMs, OrSchedule: s.GetSchedule(),
	}}}
}

func leadsNothing(c *clustertest.Cluster, i int) error {
	for _, s := range c.Node(i).View(context.Background()).Shards {
		if s.Leader == c.Node(i).ID() {
			return fmt.Errorf("node %d leads shard %d", i, s.ID)
		}
	}
	return nil
}

func diskLow(v cluster.View) string {
	low := ""
	for _, n := range v.Nodes {
		if n.DiskLow {
			low += n.ID + " "
		}
	}
	return low
}

// heaps simulates the heaps of the nodes, with the live bytes that the test sets.
type heaps struct {
	mu   sync.Mutex
	live [3]int64
	told uint64
}

func (h *heaps) set(i int, live int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live[i] = live
}

// heapOf is a host with the heap of one node, on a machine that has memory enough.
type heapOf struct {
	headroom.Host
	*heaps
	node int
}

func (h heapOf) Heap() headroom.Heap {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told++
	return headroom.Heap{Live: h.live[h.node], Cycles: h.told}
}

func (heapOf) Machine() (headroom.Machine, error) {
	return headroom.Machine{Total: 1, Available: math.MaxInt64}, nil
}

// The node with the least memory limits the shards that have a replica on it, whichever node leads them. All calls but
// new tasks go on. When the node is gone, or has memory again, new tasks are accepted.
func TestMemoryFills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 30
		h := &heaps{}
		c := clustertest.New(t, 3, func(i int, cfg *cluster.Config) {
			cfg.MemoryLimit, cfg.Shards = limit, 3
			cfg.Host = heapOf{headroom.System{Dir: cfg.DataDir}, h, i}
		})
		mustDo(t, c.Node(0), schedule("kept", time.Hour), schedule("late", 5*time.Second), schedule("gone", time.Hour))

		h.set(1, limit*8/10)
		full := func() error {
			for i := range 12 { // over all shards, by all nodes
				err := do(c.Node(i%3), schedule(fmt.Sprint("more-", i), time.Hour))
				var lack *task.MemoryError
				if !errors.As(err, &lack) {
					return fmt.Errorf("more-%d: %w", i, err)
				}
				if lack.Node != c.Node(1).ID() || lack.Limit != "1GiB" {
					t.Errorf("refused with %+v", lack)
				}
			}
			return nil
		}
		c.Until("nothing is scheduled any more", full)
		if err := do(c.Node(2), &fsmpb.Command{Id: "gone", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}); err != nil {
			t.Errorf("cancel: %v", err)
		}
		c.Until("the due tasks are delivered", func() error {
			if c.Deliver.Attempts("late") != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		for _, n := range c.Node(0).View(t.Context()).Nodes {
			assert.Equal(t, n.MemoryFull, (n.ID == c.Node(1).ID()), "%s is shown with full memory", n.ID)
		}
		assert.Equal(t, full(), nil, "later")
		h.set(1, limit/2)
		c.Until("there is memory again", func() error { return do(c.Node(0), schedule("more", time.Hour)) })

		h.set(2, limit*9/10)
		c.Until("nothing is scheduled any more", func() error {
			if err := do(c.Node(0), schedule("more-0", time.Hour)); !errors.Is(err, task.ErrNoMemory) {
				return fmt.Errorf("scheduled: %w", err)
			}
			return nil
		})
		c.Stop(2)
		c.Until("a stopped node does not keep tasks out", func() error { return do(c.Node(0), schedule("more", time.Hour)) })
	})
}
