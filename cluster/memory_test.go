package cluster_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

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
