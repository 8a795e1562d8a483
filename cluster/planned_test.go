package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/gated"
)

// rounds returns the number of rounds of a test: the first one, or the second one in the long form.
func rounds(short, long int) int {
	if gated.Has(gated.Long) {
		return long
	}
	return short
}

// callers make calls through all nodes of a cluster, and record the calls that fail.
type callers struct {
	at []*callersOf // by node

	mu      sync.Mutex // guards the fields below
	made    int
	longest time.Duration
	failed  map[string]int // by error
}

// callersOf are the callers of one node.
type callersOf struct {
	made [callersEach]int // calls of each
	stop context.CancelFunc
	wg   sync.WaitGroup
}

const (
	callersEach = 4 // at each node
	callsABeat  = 3 // of each caller, one after the other
	// beat is the time between the instants at which all callers call. In simulated time only the changes of that instant
	// meet their calls.
	beat = 10 * time.Millisecond
)

func newCallers(c *clustertest.Cluster) *callers {
	l := &callers{at: make([]*callersOf, len(c.Nodes())), failed: map[string]int{}}
	for i, n := range c.Nodes() {
		l.at[i] = new(callersOf)
		l.begin(i, n)
	}
	return l
}

// begin starts the callers of a node.
func (l *callers) begin(i int, n *cluster.Node) {
	ctx, stop := context.WithCancel(context.Background())
	l.at[i].stop = stop
	for w := range callersEach {
		l.at[i].wg.Go(func() {
			pace := time.NewTicker(beat)
			defer pace.Stop()
			for made := &l.at[i].made[w]; ctx.Err() == nil; <-pace.C {
				for range callsABeat {
					l.call(n, fmt.Sprintf("task-%d-%d-%d", i, w, *made), *made)
					*made++
				}
			}
		})
	}
}

// end ends the callers of a node, and waits for their calls under way.
func (l *callers) end(i int) {
	l.at[i].stop()
	l.at[i].wg.Wait()
}

// call schedules a task that is due in a moment, and reads one task in four.
func (l *callers) call(node *cluster.Node, id string, n int) {
	began := time.Now()
	cmd := schedule(id, time.Duration(n%300)*time.Millisecond)
	err := node.Do(context.Background(), []*fsmpb.Command{cmd})[0].Err
	if err == nil && n%4 == 0 {
		_, err = node.Get(context.Background(), "", id, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made++
	l.longest = max(l.longest, time.Since(began))
	if err != nil {
		l.failed[err.Error()]++
	}
}

// check ends the calls. None may have failed, or have taken longer than most.
func (l *callers) check(t *testing.T, most time.Duration) {
	t.Helper()
	for i := range l.at {
		l.end(i)
	}
	for err, n := range l.failed {
		t.Errorf("%d times: %s", n, err)
	}
	if l.made == 0 || l.longest > most {
		t.Errorf("%d calls, the longest took %v", l.made, l.longest)
	}
}

// Leaderships move from node to node under load. No call is refused, and none is left without an answer.
func TestTransfersRefuseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		awaitReplicas(c, 3, 3)
		l := newCallers(c)
		defer l.check(t, 50*time.Millisecond)
		moved, longest := 0, time.Duration(0)
		pace := time.NewTicker(beat)
		defer pace.Stop()
		for i := 0; moved < rounds(60, 200) && !t.Failed(); i++ {
			<-pace.C
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
	})
}

// Nodes stop in order and start again under load, one after the other. No call through the others is refused, and none
// waits for an election.
func TestRestartsRefuseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, nil)
		awaitReplicas(c, 3, 3)
		for i := range rounds(3, 10) {
			<-time.After(5 * time.Second) // every node has heard how the others are, and has all entries
			l := newCallers(c)
			l.end(i % 3) // as the end of the HTTP server does
			c.Stop(i % 3)
			n := c.Start(i % 3)
			c.WaitReady()
			l.begin(i%3, n)
			l.check(t, 100*time.Millisecond)
		}
	})
}
