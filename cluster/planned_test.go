package cluster_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard"
)

// rounds returns the number of rounds of a test: the first one, or the second one in the long form.
func rounds(short, long int) int {
	if os.Getenv("BELFRY_CHAOS") == "long" {
		return long
	}
	return short
}

// door admits calls to a node. It is locked while the node is stopped.
type door struct {
	sync.RWMutex
	node *cluster.Node
}

// callers make calls through all nodes of a cluster, and record the calls that fail.
type callers struct {
	doors []*door
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	made    int
	longest time.Duration
	failed  map[string]int // by error
}

// callersEach is the number of callers at each node.
const callersEach = 4

func newCallers(c *clustertest.Cluster) *callers {
	ctx, stop := context.WithCancel(context.Background())
	l := &callers{stop: stop, failed: map[string]int{}}
	for i, n := range c.Nodes() {
		d := &door{node: n}
		l.doors = append(l.doors, d)
		for w := range callersEach {
			l.wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					l.call(d, fmt.Sprintf("task-%d-%d-%d", i, w, n), n)
				}
			})
		}
	}
	return l
}

// call schedules a task that is due in a moment, and reads one task in four.
func (l *callers) call(d *door, id string, n int) {
	d.RLock()
	defer d.RUnlock()
	began := time.Now()
	cmd := schedule(id, time.Duration(n%300)*time.Millisecond)
	err := d.node.Do(context.Background(), []*fsmpb.Command{cmd})[0].Err
	if err == nil && n%4 == 0 {
		_, err = d.node.Get(context.Background(), "", id, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	l.longest = max(l.longest, time.Since(began))
	if err != nil {
		l.failed[err.Error()]++
	}
}

// check ends the calls. None may have failed.
func (l *callers) check(t *testing.T) {
	t.Helper()
	l.stop()
	l.wg.Wait()
	t.Logf("%d calls, the longest took %v", l.made, l.longest)
	for err, n := range l.failed {
		t.Errorf("%d times: %s", n, err)
	}
	if l.made == 0 {
		t.Error("no call was made")
	}
}

// unhurried gives a node so much time that a busy machine causes no election: only planned changes are judged.
func unhurried(_ int, cfg *cluster.Config) { cfg.Timing = shard.WAN() }

// Leaderships move from node to node under load. No call is refused, and none is left without an answer.
func TestTransfersRefuseNothing(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, unhurried)
	awaitReplicas(c, 3, 3)
	l := newCallers(c)
	defer l.check(t)
	moved, longest := 0, time.Duration(0)
	for i := 0; moved < rounds(60, 200) && !t.Failed(); i++ {
		n := c.Node(i % 3)
		shards := n.View(t.Context()).Shards
		s := shards[i%len(shards)]
		to := ""
		for _, r := range s.Replicas {
			if r.Node != s.Leader {
				to = r.Node
			}
		}
		began := time.Now()
		if err := n.Transfer(t.Context(), s.ID, to); err != nil {
			t.Logf("shard %d: %v", s.ID, err) // a leadership on its way home, for example
			continue
		}
		moved, longest = moved+1, max(longest, time.Since(began))
	}
	t.Logf("%d leaderships moved, each within %v", moved, longest)
}

// Nodes stop in order and start again under load, one after the other. No call through the others is refused, and none
// is left without an answer.
func TestRestartsRefuseNothing(t *testing.T) {
	t.Parallel()
	c := clustertest.New(t, 3, unhurried)
	awaitReplicas(c, 3, 3)
	l := newCallers(c)
	defer l.check(t)
	for i := range rounds(3, 10) {
		restart(t, c, l.doors[i%3], i%3)
	}
}

func restart(t *testing.T, c *clustertest.Cluster, d *door, i int) {
	t.Helper()
	d.Lock() // this waits for the calls under way, as the end of the HTTP server does
	defer d.Unlock()
	began := time.Now()
	c.Stop(i)
	stopped := time.Since(began)
	d.node = c.Start(i)
	c.WaitReady()
	t.Logf("node %d stopped within %v, and was ready after %v", i, stopped, time.Since(began))
}
