package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// toEach schedules a task for each of n receivers.
func toEach(t testing.TB, lead *node, name string, n int, due time.Time) {
	var cmds []*fsmpb.Command
	for i := range n {
		cmd := schedule(fmt.Sprintf("%s-%06d", name, i), due)
		cmd.GetSchedule().Spec.Target.Url = fmt.Sprintf("http://%s%d.test/", name, i)
		cmd.GetSchedule().Spec.Retry = &fsmpb.Retry{MaxAttempts: 3}
		cmds = append(cmds, cmd)
	}
	lead.mustAll(t, cmds)
}

// planned returns the statistics of the leader's planner, read by the proposer's goroutine.
func planned(n *node) dispatch.Stats {
	stats := make(chan dispatch.Stats, 1)
	n.current().proposer.intake.tell(func(p *dispatch.Planner, _ time.Time) { stats <- p.Stats() })
	return <-stats
}

// maxIdleLanes is the number of lanes without a task that a planner remembers.
const maxIdleLanes = 1024

// TestStrangers checks that thousands of receivers that never answer get no more than the crowd's attempts at a
// time, and that a receiver known to be well gets its own beside them.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const strangers, dead = 100, 2500
		c := newReplicas(t, 1, func(cfg *Config) { cfg.Crowd = dispatch.NewCrowd(2 * strangers) }).startAll()
		var mu sync.Mutex
		hanging, most := 0, 0
		c.sink.respond = func(ctx context.Context, a task.Attempt) task.Outcome {
			if !strings.HasPrefix(a.Task.Id, "dead") {
				return task.Outcome{Delivered: true}
			}
			mu.Lock()
			hanging++
			most = max(most, hanging)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			hanging--
			return task.Outcome{Error: "timeout"}
		}
		n := c.leader()
		due := time.Now().Add(time.Minute).Truncate(time.Millisecond)
		toEach(t, n, "dead", dead, due)
		for i := range 200 { // without a pause, so that the lane stays known
			n.must(t, schedule(fmt.Sprintf("well-%03d", i), due.Add(time.Duration(i-100)*100*time.Millisecond)))
		}
		time.Sleep(time.Until(due) + 5*time.Second)
		mu.Lock()
		if most > 2*strangers {
			t.Errorf("%d attempts at dead receivers at once", most)
		}
		mu.Unlock()
		for i, a := range c.sink.of("well-149") {
			if want := due.Add(4900 * time.Millisecond); i > 0 || !a.at.Equal(want) {
				t.Errorf("attempt %d at %v, due %v", i+1, a.at, want)
			}
		}
		time.Sleep(6 * time.Hour)
		if got := n.machine.Counts(); got.ByState[fsmpb.State_STATE_DEAD] != dead || got.Lanes != 0 {
			t.Errorf("%d dead letters, %d lanes", got.ByState[fsmpb.State_STATE_DEAD], got.Lanes)
		}
		if s := planned(n); s.Lanes > maxIdleLanes || s != (dispatch.Stats{Lanes: s.Lanes}) {
			t.Errorf("%+v", s)
		}
	})
}

// TestFullLanesAreLeftAlone checks that an entry about other lanes costs no look at lanes where tasks wait and none can
// begin.
func TestFullLanesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "paused", Paused: true})
		c := newReplicas(t, 1, func(cfg *Config) { d.governs(cfg); cfg.Policy.Window = 1 }).startAll()
		c.sink.respond = func(ctx context.Context, a task.Attempt) task.Outcome {
			<-ctx.Done()
			return task.Outcome{Error: "timeout"}
		}
		n := c.leader()
		const lanes = 300
		due := time.Now().Add(time.Second)
		toEach(t, n, "a", lanes, due)
		for _, id := range []string{"again", "andagain"} {
			var cmds []*fsmpb.Command
			for i := range lanes {
				full := schedule(fmt.Sprintf("%s-%d", id, i), due)
				full.GetSchedule().Spec.Target.Url = fmt.Sprintf("http://a%d.test/", i)
				paused := inQueue("paused", fmt.Sprintf("p%s-%d", id, i), due)
				paused.GetSchedule().Spec.Target = full.GetSchedule().Spec.Target
				cmds = append(cmds, full, paused, inQueue("pulled", fmt.Sprintf("q%s-%d", id, i), due))
			}
			n.mustAll(t, cmds)
		}
		time.Sleep(5 * time.Second)
		loads := n.machine.Loads()
		for range 10 {
			n.must(t, schedule("other", due.Add(time.Hour)))
			if s := planned(n); s.Woken+s.HeldBack+s.Serving > 0 {
				t.Errorf("of %d lanes some are to be looked at: %+v", len(loads), s)
			}
		}
		assert.Equal(t, len(loads), 2*lanes+1, "lanes")
	})
}

// BenchmarkBesideFullLanes makes one schedule after the other beside lanes where a task waits. The cost must not depend
// on the number of those lanes.
func BenchmarkBesideFullLanes(b *testing.B) {
	for _, lanes := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			d := newDecided(&fsmpb.QueuePolicy{Queue: "paused", Paused: true})
			c := newReplicas(b, 1, func(cfg *Config) { d.governs(cfg); cfg.Timing = LAN() }).startAll()
			n, due := c.leader(), time.Now()
			var cmds []*fsmpb.Command
			for i := range lanes {
				cmd := inQueue("paused", fmt.Sprintf("p%d", i), due)
				cmd.GetSchedule().Spec.Target = &fsmpb.Target{Url: fmt.Sprintf("http://a%d.test/", i)}
				cmds = append(cmds, cmd)
			}
			n.mustAll(b, cmds)
			c.eventually("all wait", func() bool { return n.machine.Counts().ByState[fsmpb.State_STATE_READY] == lanes })
			b.ResetTimer()
			for i := range b.N {
				n.must(b, schedule(fmt.Sprintf("t%d", i), due.Add(time.Hour)))
			}
		})
	}
}

// TestSilentReceiversFillANode checks that receivers that accept and never answer hold no more attempts on a node than
// its crowd has, even when the leadership goes to another node with them under way, and comes back. A queue beside them,
// each of whose tasks has a receiver of its own, stays on time.
func TestSilentReceiversFillANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd, silent, beside = 400, 1000, 40
		c := newReplicas(t, 2, func(cfg *Config) { cfg.Timing, cfg.Crowd = LAN(), dispatch.NewCrowd(crowd) })
		c.sink.respond = func(ctx context.Context, a task.Attempt) task.Outcome {
			if strings.HasPrefix(a.Task.Id, "silent") {
				<-ctx.Done()
			}
			return task.Outcome{Delivered: ctx.Err() == nil}
		}
		c.startAll()
		n := c.leader()
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		var cmds []*fsmpb.Command
		for i := range silent {
			cmd := schedule(fmt.Sprint("silent-", i), due)
			cmd.GetSchedule().Spec.Target = &fsmpb.Target{
				Url: fmt.Sprintf("http://silent%d.test/", i), TimeoutMs: task.MaxTimeout.Milliseconds(),
			}
			cmds = append(cmds, cmd)
		}
		due = due.Add(2 * time.Second)
		for i := range beside {
			cmd := schedule(fmt.Sprint("beside-", i), due.Add(time.Duration(i)*250*time.Millisecond))
			cmd.GetSchedule().Spec.Queue = "beside"
			cmd.GetSchedule().Spec.Target.Url = fmt.Sprintf("http://beside%d.test/", i)
			cmds = append(cmds, cmd)
		}
		n.mustAll(t, cmds)
		for i := range 15 {
			<-time.After(time.Until(due.Add(time.Duration(i) * time.Second)))
			if i == 3 || i == 6 {
				assert.NoError(t, n.Transfer(t.Context(), c.others(n.cfg.NodeID)[0]))
				n = c.leader(c.others(n.cfg.NodeID)...)
			}
			for _, id := range c.ids {
				if running := c.nodes[id].attempts.count(); running > crowd {
					t.Errorf("%d attempts are under way on %s", running, id)
				}
			}
		}
		if running := n.attempts.count(); running < crowd/2 {
			t.Errorf("%d attempts are under way", running)
		}
		for i := range beside {
			came, at := c.sink.of(fmt.Sprint("beside-", i)), due.Add(time.Duration(i)*250*time.Millisecond)
			if len(came) != 1 || came[0].at.Sub(at) > time.Second+c.timing().Drain {
				t.Errorf("%d, due %v, came %v", i, at, came)
			}
		}
	})
}

// TestDueTogetherOnAFullNode checks that tasks that are due at one instant on a node with little room for attempts wait
// in their lane, and not in the wheel: a task of another receiver that is due a moment later is not behind them.
func TestDueTogetherOnAFullNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const storm, commit = 20_000, time.Millisecond
		c := newReplicas(t, 2, func(cfg *Config) { cfg.Timing, cfg.Crowd = LAN(), dispatch.NewCrowd(400) })
		gates := c.gates()
		c.startAll()
		n, due := c.leader(), time.Now().Add(time.Minute).Truncate(time.Millisecond)
		cmds := make([]*fsmpb.Command, storm)
		for i := range cmds {
			cmds[i] = schedule(fmt.Sprint("storm-", i), due)
		}
		beside := schedule("beside", due.Add(time.Millisecond))
		beside.GetSchedule().Spec.Target.Url = "http://beside.test/"
		n.mustAll(t, append(cmds, beside))
		gates[n.cfg.NodeID].with(func(g *gate) { g.pace = commit })
		<-time.After(time.Until(due.Add(time.Minute)))
		came := c.sink.of("beside")
		if len(came) != 1 || came[0].at.Sub(due) > 50*commit {
			t.Errorf("beside %d tasks due at %v it came %v", storm, due, came)
		}
		assert.Equal(t, len(c.sink.of(fmt.Sprint("storm-", storm-1))), 1, "the last task came N times")
	})
}

// The limits with which package dispatch grants a backlog.
const (
	burst     = 512
	minRest   = 5 * time.Millisecond
	maxRest   = 80 * time.Millisecond
	usersStay = time.Second
)

// mustWait schedules due tasks of a queue without consumers.
func mustWait(t *testing.T, n *node, queue string, tasks int) {
	t.Helper()
	var cmds []*fsmpb.Command
	for i := range tasks {
		cmds = append(cmds, inQueue(queue, fmt.Sprintf("%s-%d", queue, i), time.Now()))
	}
	n.mustAll(t, cmds)
	time.Sleep(2 * usersStay)
}

// bursts returns the number of tasks that came together, and the instant, for each burst.
func (p *puller) bursts() (sizes []int, at []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, now := range p.at {
		if len(at) == 0 || !at[len(at)-1].Equal(now) {
			sizes, at = append(sizes, 0), append(at, now)
		}
		sizes[len(sizes)-1]++
	}
	return sizes, at
}

const backlog = 6*burst + 1

// TestBacklogRestsForUsers checks that a backlog is handed over in bursts with rests between them while users call.
// Each queue with a backlog has its turn, and tasks that come due elsewhere are not delayed.
func TestBacklogRestsForUsers(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		mustWait(t, n, "red", backlog)
		mustWait(t, n, "blue", backlog)
		punctual, _ := n.lease(t, "green", backlog, time.Minute)
		n.must(t, inQueue("green", "a", time.Now().Add(time.Minute)))
		began := time.Now()
		red, _ := n.lease(t, "red", backlog, time.Minute)
		synctest.Wait() // red has its first burst alone, so its last one comes before blue's
		blue, _ := n.lease(t, "blue", backlog, time.Minute)
		for i := range 20 {
			n.must(t, inQueue("green", fmt.Sprint(i), time.Now()))
			time.Sleep(maxRest)
		}
		synctest.Wait()
		if late := slices.MaxFunc(punctual.at, time.Time.Compare).Sub(began); late > 19*maxRest || len(punctual.at) != 20 {
			t.Errorf("%d punctual tasks, the last after %v", len(punctual.at), late)
		}
		_, ends := red.bursts()
		_, others := blue.bursts()
		if len(ends) < backlog/burst || len(others) < backlog/burst ||
			ends[2].Before(others[0]) || others[2].Before(ends[0]) {
			t.Errorf("red at %v, blue at %v", ends, others)
		}
		all := slices.SortedFunc(slices.Values(slices.Concat(red.at, blue.at)), time.Time.Compare)
		if len(all) != 2*backlog || all[len(all)-1].Sub(began) > 2*backlog/burst*maxRest {
			t.Fatalf("%d tasks, the last after %v", len(all), all[len(all)-1].Sub(began))
		}
		// With less than a burst left, a queue has no backlog any more, and no rest follows its last tasks.
		const rested = backlog - burst - 1
		all = slices.SortedFunc(slices.Values(slices.Concat(red.at[:rested], blue.at[:rested])), time.Time.Compare)
		for i := burst; i < len(all); i++ {
			if gap := all[i].Sub(all[i-burst]); gap < minRest {
				t.Fatalf("%d tasks within %v", burst+1, gap)
			}
		}
	})
}

// TestBacklogAlone checks that consumers who only settle their tasks cause no rests.
func TestBacklogAlone(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		mustWait(t, n, "red", 1)
		first, _ := n.lease(t, "red", 1, time.Minute)
		synctest.Wait()
		mustWait(t, n, "blue", backlog)
		n.must(t, settleOf(first.tasks[0], fsmpb.Verdict_VERDICT_DELIVERED))
		p, _ := n.lease(t, "blue", backlog, time.Minute)
		synctest.Wait()
		if len(p.tasks) != backlog {
			t.Errorf("%d of %d tasks came at once", len(p.tasks), backlog)
		}
	})
}
