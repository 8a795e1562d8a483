package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
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

// slow is a receiver whose attempts take half a second.
type slow struct {
	mu    sync.Mutex
	began map[string][]time.Time // attempts, by task
}

func (r *slow) Deliver(_ context.Context, a task.Attempt) task.Outcome {
	r.mu.Lock()
	r.began[a.Task.Id] = append(r.began[a.Task.Id], time.Now())
	r.mu.Unlock()
	<-time.After(500 * time.Millisecond)
	return task.Outcome{Delivered: true}
}

func (r *slow) DeliverBatch(context.Context, []task.Attempt) []task.Outcome { return nil }

// load schedules forty tasks a second through a node until ctx ends, and returns their due times.
func (r *slow) load(ctx context.Context, t *testing.T, n *cluster.Node) map[string]time.Time {
	due := map[string]time.Time{}
	for ; ctx.Err() == nil; <-time.After(time.Second) {
		var cmds []*fsmpb.Command
		for i := range 40 {
			cmd := schedule(fmt.Sprint("slow-", len(due)), time.Second+time.Duration(i)*25*time.Millisecond)
			due[cmd.Id] = time.UnixMilli(cmd.GetSchedule().FireAtMs)
			cmds = append(cmds, cmd)
		}
		for _, reply := range n.Do(context.Background(), cmds) {
			if reply.Err != nil {
				t.Error(reply.Err)
			}
		}
	}
	<-time.After(5 * time.Second)
	return due
}

// check requires one attempt for each task, at most a second late.
func (r *slow) check(t *testing.T, due map[string]time.Time) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range due {
		if began := r.began[id]; len(began) != 1 || began[0].Sub(at) > time.Second {
			t.Errorf("%s, due %v, was attempted at %v", id, at, began)
		}
	}
}

// Nodes stop and start again, rest and are drained, and slots move, one after the other, while attempts are always
// running and leaderships go home. None is repeated, and none begins much later than it is due.
func TestPlannedChangesRepeatNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		receiver := &slow{began: map[string][]time.Time{}}
		c := clustertest.New(t, 4, func(_ int, cfg *cluster.Config) {
			cfg.Deliver, cfg.Calm = receiver, 300*time.Millisecond
		})
		awaitReplicas(c, 3, 4)
		node := c.Node(0).ID()
		restart := func(i int) func() {
			return func() {
				c.Stop(i)
				c.Start(i)
				c.WaitReady()
			}
		}
		begin := func(op *clusterpb.Operation) func() { return func() { operate(t, c, op) } }
		resume := begin(&clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_RESUME, Node: node})
		changes := []func(){
			begin(&clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_REST, Node: node}), resume,
			begin(&clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_DRAIN, Node: node}), resume,
			begin(&clusterpb.Operation{Kind: clusterpb.OperationKind_OPERATION_KIND_SPLIT, Shard: 1}),
			begin(&clusterpb.Operation{
				Kind: clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS, Shard: 2, Slots: []*fsmpb.SlotRange{{First: 0, End: 64}},
			}),
		}
		for i := range rounds(4, 50) {
			changes = append(changes, restart(i%3))
		}
		ctx, stop := context.WithCancel(t.Context())
		due := make(chan map[string]time.Time, 1)
		go func() { due <- receiver.load(ctx, t, c.Node(3)) }()
		for i, change := range changes {
			<-time.After(4*time.Second + time.Duration(i%4)*time.Second) // transfers home are under way
			change()
		}
		stop()
		receiver.check(t, <-due)
	})
}
