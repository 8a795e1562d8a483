package shard

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// puller stands for a node whose consumers ask this leader for tasks.
type puller struct {
	mu    sync.Mutex
	tasks []*fsmpb.Task
	at    []time.Time
	ready []int
	ended error
	looks []uint64 // numbers of the looks that were answered with nothing
}

func (p *puller) Nothing(look uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks = append(p.looks, look)
}

func (p *puller) Take(l task.Leased) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range l.Tasks {
		p.tasks, p.at, p.ready = append(p.tasks, t), append(p.at, time.Now()), append(p.ready, l.Ready)
	}
}

func (p *puller) End(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = err
}

func (p *puller) ids() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := ""
	for _, t := range p.tasks {
		ids += t.Id
	}
	return ids
}

// counts returns the number of answers to looks, and the number of tasks.
func (p *puller) counts() (answers, tasks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.looks), len(p.tasks)
}

func (n *node) lease(t testing.TB, queue string, total int, lease time.Duration) (*puller, *desk.Demand) {
	t.Helper()
	p := &puller{}
	d, err := n.Lease(task.LeaseRequest{Namespace: "default", Queue: queue, Max: total, Lease: lease}, p)
	assert.NoError(t, err)
	return p, d
}

func settleOf(t *fsmpb.Task, verdict fsmpb.Verdict) *fsmpb.Command {
	return &fsmpb.Command{Id: t.Id, Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
		Fence: t.Fence, Occurrence: t.Occurrence, Verdict: verdict, Consumer: true,
	}}}
}

func oneReplica(t *testing.T, do func(t *testing.T, c *replicas, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		c.next(n, nil)
		do(t, c, n)
	})
}

// TestWaitingConsumerGetsTaskOnTime checks that the entry that finds a task due leases it, and that the consumer gets
// it at its instant.
func TestWaitingConsumerGetsTaskOnTime(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		p, _ := n.lease(t, "work", 10, time.Minute)
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		n.must(t, inQueue("work", "a", due))
		n.must(t, inQueue("other", "b", due))
		time.Sleep(time.Until(due) - time.Second)
		before := n.group.Stats().Last
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		assert.Equal(t, p.ids(), "", "early")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if p.ids() != "a" || !p.at[0].Equal(due) {
			t.Fatalf("got %q at %v, due at %v", p.ids(), p.at, due)
		}
		assert.Equal(t, n.group.Stats().Last-before, 1, "entries")
		task := p.tasks[0]
		if !task.Leased || task.LeaseEndMs != due.Add(time.Minute).UnixMilli() || task.Attempts != 1 ||
			string(task.Spec.Payload) != `{"order":1042}` {
			t.Errorf("%v", task)
		}
		r := n.must(t, settleOf(task, fsmpb.Verdict_VERDICT_DELIVERED))
		assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "ack: %v", r)
		assert.Equal(t, n.state(t, "a"), fsmpb.State_STATE_DELIVERED, "state")
	})
}

// TestLooks checks that a leader reports at once that no task is there, and never does so while one is. Tasks due at
// the time of the question are handed over, whether the wheel has popped them or not. Tasks that a queue holds back do
// not count.
func TestLooks(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		n.must(t, inQueue("work", "later", time.Now().Add(time.Hour)))
		began := time.Now()
		p, d := n.lease(t, "work", 10, time.Minute)
		d.Set(10, 0, 1)
		synctest.Wait()
		if len(p.looks) != 1 || p.looks[0] != 1 || len(p.tasks) != 0 || !time.Now().Equal(began) {
			t.Fatalf("answered %v, with %q, after %v", p.looks, p.ids(), time.Since(began))
		}
		for i := range uint64(20) {
			n.must(t, inQueue("work", fmt.Sprint(i, " "), time.Now())) // its Advance is not yet made
			d.Set(10+i, i, 2+i)
			tasks := 0
			for answers := 0; answers < int(2+i); answers, tasks = p.counts() {
				time.Sleep(time.Millisecond) // of the bubble's clock
			}
			if tasks != int(i+1) {
				t.Fatalf("question %d: told that nothing is there, with %d tasks", i+2, tasks)
			}
		}
		other, d := n.lease(t, "empty", 1, time.Minute)
		d.Set(1, 0, 9)
		synctest.Wait()
		if len(other.looks) != 1 || other.looks[0] != 9 {
			t.Errorf("of another queue: %v", other.looks)
		}
	})
}

func TestBacklogIsLeasedAtOnce(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		for i := range 30 {
			n.must(t, inQueue("work", fmt.Sprintf("%02d", i), time.Now()))
		}
		time.Sleep(time.Second)
		began := time.Now()
		p, d := n.lease(t, "work", 10, time.Minute)
		synctest.Wait()
		if len(p.tasks) != 10 || p.ready[0] != 20 {
			t.Fatalf("%d tasks, %v wait", len(p.tasks), p.ready)
		}
		d.Set(25, 10, 0)
		synctest.Wait()
		if len(p.tasks) != 25 || p.ready[24] != 5 || !time.Now().Equal(began) {
			t.Fatalf("%d tasks, %v wait, after %v", len(p.tasks), p.ready, time.Since(began))
		}
		for i, task := range p.tasks {
			assert.Equal(t, task.Id, fmt.Sprintf("%02d", i), "%d", i)
		}
	})
}

func TestEndedLeaseIsHandedOutAgain(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		p, _ := n.lease(t, "work", 10, 30*time.Second)
		n.must(t, inQueue("work", "a", time.Now().Add(time.Second)))
		time.Sleep(40 * time.Second)
		if p.ids() != "aa" || p.tasks[1].Attempts != 2 || p.tasks[1].Fence <= p.tasks[0].Fence {
			t.Fatalf("got %v", p.tasks)
		}
		if gap := p.at[1].Sub(p.at[0]); gap < 30*time.Second || gap > 31*time.Second {
			t.Errorf("again after %v", gap)
		}
		r := n.must(t, settleOf(p.tasks[0], fsmpb.Verdict_VERDICT_DELIVERED))
		assert.Equal(t, r.Code, fsmpb.Code_CODE_STALE, "old receipt: %v", r)
		r = n.must(t, settleOf(p.tasks[1], fsmpb.Verdict_VERDICT_RETRY))
		assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "nack: %v", r)
		time.Sleep(10 * time.Second)
		assert.Equal(t, p.ids(), "aaa", "after a nack")
	})
}

// TestNobodyLeftGivesBack checks that a task loses no attempt when its consumer leaves while the grant is held until
// its instant.
func TestNobodyLeftGivesBack(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		p, d := n.lease(t, "work", 10, time.Minute)
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		n.must(t, inQueue("work", "a", due))
		time.Sleep(time.Until(due) - 2*time.Millisecond)
		if got := n.state(t, "a"); got != fsmpb.State_STATE_FIRING {
			t.Fatalf("state %v before its instant", got)
		}
		d.Withdraw()
		time.Sleep(time.Second)
		task, err := n.Get(t.Context(), "", "a", true)
		if err != nil || p.ids() != "" || task.State != fsmpb.State_STATE_READY || task.Attempts != 0 {
			t.Errorf("got %q; %v, %v", p.ids(), task, err)
		}
		again, _ := n.lease(t, "work", 1, time.Minute)
		synctest.Wait()
		if again.ids() != "a" || again.tasks[0].Attempts != 1 {
			t.Errorf("got %v", again.tasks)
		}
	})
}

// TestIdleConsumersCostNothing checks that waiting consumers cause no log entry, whatever their number and the time.
func TestIdleConsumersCostNothing(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		var demands []*desk.Demand
		for i := range 1000 {
			_, d := n.lease(t, fmt.Sprint("queue-", i%500), 100, time.Minute)
			demands = append(demands, d)
		}
		synctest.Wait()
		before, lanes := n.group.Stats().Last, n.current().desk.Waiting()
		time.Sleep(24 * time.Hour)
		if after := n.group.Stats().Last; after != before || lanes != 1000 {
			t.Errorf("%d entries for %d consumers", after-before, lanes)
		}
		for _, d := range demands {
			d.Withdraw()
		}
		synctest.Wait()
		if n.current().desk.Waiting() != 0 || n.group.Stats().Last != before {
			t.Error("leaving cost something")
		}
	})
}

// TestEndedLeadershipHandsOverItsLeases checks that an ended leadership hands over its held leases. No other leader
// would, before the leases end.
func TestEndedLeadershipHandsOverItsLeases(t *testing.T) {
	oneReplica(t, func(t *testing.T, c *replicas, n *node) {
		p, _ := n.lease(t, "work", 10, time.Minute)
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		n.must(t, inQueue("work", "a", due))
		time.Sleep(time.Until(due) - 2*time.Millisecond)
		before := n.current()
		before.end(errors.New("the test wants it so"))
		c.next(n, before)
		synctest.Wait()
		if p.ids() != "a" || p.at[0].Before(due) {
			t.Errorf("got %q at %v", p.ids(), p.at)
		}
		if !isNotLeader(p.ended) {
			t.Errorf("ended with %v", p.ended)
		}
		r := n.must(t, settleOf(p.tasks[0], fsmpb.Verdict_VERDICT_DELIVERED))
		assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "ack: %v", r)
	})
}

// TestLeaseSurvivesItsLeader checks that a receipt and the end of its lease stay valid with the next leader.
func TestLeaseSurvivesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		p, _ := n.lease(t, "work", 2, 10*time.Minute)
		n.must(t, inQueue("work", "a", time.Now()))
		n.must(t, inQueue("work", "b", time.Now()))
		time.Sleep(time.Second)
		assert.MustEqual(t, p.ids(), "ab", "got")
		dead := n.cfg.NodeID
		c.kill(dead)
		next := c.leader(c.others(dead)...)
		q, _ := next.lease(t, "work", 2, 10*time.Minute)
		time.Sleep(time.Minute)
		assert.Equal(t, q.ids(), "", "leased twice")
		r := next.must(t, settleOf(p.tasks[0], fsmpb.Verdict_VERDICT_DELIVERED))
		assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "ack: %v", r)
		time.Sleep(10 * time.Minute)
		if q.ids() != "b" || q.tasks[0].Attempts != 2 {
			t.Errorf("got %v", q.tasks)
		}
	})
}

// TestTransferGivesUnstartedLeasesBack checks that a planned change of leader delays no task until the end of a lease.
func TestTransferGivesUnstartedLeasesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		c.next(n, nil)
		p, _ := n.lease(t, "work", 10, time.Hour)
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		n.must(t, inQueue("work", "a", due))
		time.Sleep(time.Until(due) - 5*time.Millisecond)
		to := c.others(n.cfg.NodeID)[0]
		assert.NoError(t, n.Transfer(t.Context(), to))
		next := c.leader(to)
		q, _ := next.lease(t, "work", 10, time.Hour)
		time.Sleep(time.Minute)
		if p.ids()+q.ids() != "a" {
			t.Errorf("the old leader handed out %q, the new one %q", p.ids(), q.ids())
		}
		if !isNotLeader(p.ended) {
			t.Errorf("ended with %v", p.ended)
		}
	})
}

// TestFailedTransferGoesOn checks that tasks given back for a failed transfer reach the same demand again.
func TestFailedTransferGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n := c.leader()
		c.next(n, nil)
		p, _ := n.lease(t, "work", 1, time.Hour)
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		n.must(t, inQueue("work", "a", due))
		time.Sleep(time.Until(due) - 5*time.Millisecond)
		to := c.others(n.cfg.NodeID)[0]
		c.cut(to)
		if err := n.Transfer(t.Context(), to); err == nil {
			t.Fatal("transferred to a node that is cut off")
		}
		time.Sleep(time.Minute)
		if p.ids() != "a" || p.tasks[0].Attempts != 1 {
			t.Errorf("got %v", p.tasks)
		}
	})
}
