package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

// TestCancelAgainstFire forces the race both ways. The log decides the outcome, and a repeated cancel gets the same
// outcome.
func TestCancelAgainstFire(t *testing.T) {
	const (
		cancelled = fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED
		stopped   = fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED
		fired     = fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED
	)
	for _, test := range []struct {
		name     string
		at       time.Duration // time of the cancel, after the due time
		out      task.Outcome
		outcome  fsmpb.CancelOutcome
		arrivals int
		state    fsmpb.State
	}{
		{
			"before the grant", -minHorizon - 5*time.Millisecond, task.Outcome{Delivered: true},
			cancelled, 0, fsmpb.State_STATE_CANCELLED,
		},
		{"granted, not begun", -5 * time.Millisecond, task.Outcome{Delivered: true}, stopped, 0, fsmpb.State_STATE_CANCELLED},
		{"begun, succeeds", 5 * time.Millisecond, task.Outcome{Delivered: true}, stopped, 1, fsmpb.State_STATE_DELIVERED},
		{"begun, fails", 5 * time.Millisecond, task.Outcome{Error: "503"}, stopped, 1, fsmpb.State_STATE_CANCELLED},
		{"delivered", 50 * time.Millisecond, task.Outcome{Delivered: true}, fired, 1, fsmpb.State_STATE_DELIVERED},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, 1, nil).startAll()
				c.sink.respond = func(context.Context, task.Attempt) task.Outcome {
					time.Sleep(20 * time.Millisecond)
					return test.out
				}
				n, due := c.leader(), time.Now().Add(time.Minute).Truncate(time.Millisecond)
				n.must(t, schedule("a", due))
				time.Sleep(time.Until(due.Add(test.at)))
				for range 2 {
					assert.Equal(t, n.must(t, cancelOf("a")).Outcome, test.outcome, "outcome")
				}
				time.Sleep(time.Second)
				assert.Equal(t, len(c.sink.all()), test.arrivals, "arrivals")
				assert.Equal(t, n.state(t, "a"), test.state, "state")
			})
		})
	}
}

// TestFailoverRepeats kills the leader while some attempts run and others wait. Only the running attempts are repeated,
// with a higher fence and the same webhook id.
func TestFailoverRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Policy.Window = 7 }).startAll()
		c.sink.respond = func(ctx context.Context, _ task.Attempt) task.Outcome {
			select {
			case <-ctx.Done():
				return task.Outcome{Error: "cut"}
			case <-time.After(5 * time.Second):
				return task.Outcome{Delivered: true}
			}
		}
		n, due := c.leader(), time.Now().Add(time.Minute)
		for i := range 30 {
			n.must(t, schedule(fmt.Sprintf("t%02d", i), due))
		}
		time.Sleep(time.Until(due) + hangs/2) // an attempt that hangs makes room for another one
		first := c.sink.all()
		if len(first) != 7 {
			t.Fatalf("%d attempts run, want the window", len(first))
		}
		lost := n.cfg.NodeID
		c.kill(lost)
		next := c.leader(c.others(lost)...)
		time.Sleep(10 * time.Minute)
		c.start(lost)
		if got := len(c.sink.all()); got != 30+7 {
			t.Errorf("%d attempts, want 30 and 7 repeated", got)
		}
		for _, a := range first {
			got := c.sink.of(a.id)
			if len(got) != 2 || got[1].fence <= got[0].fence || got[1].webhookID != got[0].webhookID || got[1].attempts != 1 {
				t.Errorf("%s: %+v", a.id, got)
			}
		}
		assert.Equal(t, next.machine.Counts().ByState[fsmpb.State_STATE_DELIVERED], 30, "delivered")
		c.agree()
	})
}

// TestTransferRepeatsNothing moves the leadership back and forth while tasks fire. All tasks arrive once and on time.
// None comes early either, although grants made ahead of time are given back and granted anew.
func TestTransferRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome {
			time.Sleep(3 * time.Millisecond)
			return task.Outcome{Delivered: true}
		}
		n, begin := c.leader(), time.Now().Add(time.Minute)
		const tasks = 2000
		var cmds []*fsmpb.Command
		for i := range tasks {
			cmds = append(cmds, schedule(fmt.Sprintf("t%04d", i), begin.Add(time.Duration(i)*20*time.Millisecond)))
		}
		n.Do(t.Context(), cmds)
		time.Sleep(time.Until(begin))
		for range 10 {
			time.Sleep(3 * time.Second)
			from := c.leader()
			to := c.others(from.cfg.NodeID)[0]
			assert.NoError(t, from.Transfer(t.Context(), to))
			assert.MustEqual(t, c.leader().cfg.NodeID, to, "leads")
		}
		time.Sleep(time.Minute)
		assert.Equal(t, len(c.sink.all()), tasks, "arrivals")
		for _, a := range c.sink.all() {
			var i int
			_, err := fmt.Sscanf(a.id, "t%d", &i)
			assert.NoError(t, err)
			due := begin.Add(time.Duration(i) * 20 * time.Millisecond).Truncate(time.Millisecond)
			if late := a.at.Sub(due); late < 0 || late > 60*time.Millisecond {
				t.Errorf("%s came %v late", a.id, late)
			}
		}
		c.agree()
	})
}

// TestDueAttemptsRun checks that attempts count as running from their instants, even while the leader still verifies
// its leadership. Otherwise a transfer could begin before them.
func TestDueAttemptsRun(t *testing.T) {
	oneReplica(t, func(t *testing.T, _ *replicas, n *node) {
		f := newFiring(n.current()) // a firing whose run is not called
		f.add([]task.Grant{{ID: "a"}, {ID: "leased", Tag: 1}}, false)
		due := f.due()
		if got := n.attempts.count(); len(due) != 2 || got != 1 {
			t.Errorf("%d are due, and %d count as running", len(due), got)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if f.start(ended, due[:1]) {
			t.Error("begun without a leadership")
		}
		if got := n.attempts.count(); got != 0 {
			t.Errorf("%d count as running and are not", got)
		}
	})
}

// TestTransferThatFails offers the leadership to a node that is away. This leader stays, and its waiting task is done.
func TestTransferThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil).startAll()
		n, due := c.leader(), time.Now().Add(2*time.Second)
		n.must(t, schedule("a", due))
		away := c.others(n.cfg.NodeID)[0]
		c.cut(away)
		failed := make(chan error)
		go func() { failed <- n.Transfer(t.Context(), away) }()
		assert.Equal(t, n.must(t, schedule("b", due)).Code, fsmpb.Code_CODE_CREATED, "code")
		assert.Error(t, <-failed, "no error")
		time.Sleep(time.Minute)
		if len(c.sink.of("a")) != 1 || len(c.sink.of("b")) != 1 {
			t.Errorf("arrivals %v", c.sink.all())
		}
		assert.Error(t, n.Transfer(t.Context(), "n9"), "a node that is no voter was accepted")
	})
}

// TestWokenLeader gives a held grant to a leader that has been out of touch for long, as after SIGSTOP. The leader must
// not start the attempt, because its successor does.
func TestWokenLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken atomic.Pointer[raftgroup.Group]
		c := newReplicas(t, 3, func(cfg *Config) {
			cfg.inTouch = func(g *raftgroup.Group, term uint64) bool { return g != woken.Load() && g.InTouch(term) }
		}).startAll()
		n, due := c.leader(), time.Now().Add(time.Minute).Truncate(time.Millisecond)
		n.must(t, schedule("a", due))
		time.Sleep(time.Until(due) - 2*time.Millisecond)
		if got := n.state(t, "a"); got != fsmpb.State_STATE_FIRING {
			t.Fatalf("state %v: not granted ahead", got)
		}
		c.cut(n.cfg.NodeID)
		synctest.Wait() // wait for the last answers
		woken.Store(n.group)
		c.leader(c.others(n.cfg.NodeID)...)
		time.Sleep(10 * time.Second)
		got := c.sink.of("a")
		if len(got) != 1 || got[0].node == n.cfg.NodeID {
			t.Errorf("%+v: started by the deposed leader %s", got, n.cfg.NodeID)
		}
		c.link(n.cfg.NodeID)
		c.agree()
	})
}

// TestSuccessAfterDeposition lets an attempt outlive its leadership on a node that wins the next one too. The success
// still settles the task, and the next leadership makes no second attempt meanwhile.
func TestSuccessAfterDeposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		release := make(chan struct{})
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome {
			<-release
			return task.Outcome{Delivered: true}
		}
		n, due := c.leader(), time.Now().Add(time.Second)
		cmd := schedule("a", due)
		cmd.GetSchedule().Spec.Target.TimeoutMs = (10 * time.Minute).Milliseconds()
		n.must(t, cmd)
		time.Sleep(2 * time.Second)
		first := n.current()
		first.end(errEnded)
		c.next(n, first)
		close(release)
		time.Sleep(time.Second)
		assert.Equal(t, n.state(t, "a"), fsmpb.State_STATE_DELIVERED, "state")
		assert.Equal(t, len(c.sink.of("a")), 1, "attempts")
	})
}

// TestClock checks that the leader proposes nothing before the clocks agree, and that a jump pauses firing until they
// agree again.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var agree atomic.Bool
		c := newReplicas(t, 3, func(cfg *Config) {
			cfg.Clocks = clocks(func(voters []string) error {
				assert.Equal(t, len(voters), 3, "voters %v", voters)
				if !agree.Load() {
					return errors.New("others say otherwise")
				}
				return nil
			})
		}).startAll()
		time.Sleep(5 * time.Minute)
		for _, n := range c.nodes {
			if n.IsLeader() || n.machine.Position() != 0 {
				t.Fatal("a leader opened although no voter agrees with its clock")
			}
		}
		agree.Store(true)
		n, due := c.leader(), time.Now().Add(time.Minute).Truncate(time.Millisecond)
		n.must(t, schedule("a", due))
		agree.Store(false)
		for _, n := range c.nodes {
			n.offset.set(2 * time.Minute)
		}
		time.Sleep(10 * time.Second)
		if got := c.sink.all(); len(got) != 0 {
			t.Fatalf("%v early: %v", time.Until(due), got)
		}
		for _, n := range c.nodes {
			n.offset.set(0)
		}
		agree.Store(true)
		time.Sleep(time.Until(due) + 5*time.Minute)
		if got := c.sink.of("a"); len(got) != 1 || got[0].at.Before(due) {
			t.Errorf("due %v: %v", due, got)
		}
	})
}

func TestClockGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offset := &clockOffset{}
		g := newClockGuard(offset.now, 250*time.Millisecond, func() bool { return false })
		for _, step := range []struct {
			offset time.Duration
			ok     bool
			reads  time.Duration // relative to the true time
		}{
			{200 * time.Millisecond, true, 200 * time.Millisecond},
			{time.Hour, false, 200 * time.Millisecond},
			{time.Hour, false, 200 * time.Millisecond},
			{-time.Hour, false, 200 * time.Millisecond},
			{0, true, 0},
			{-200 * time.Millisecond, true, -200 * time.Millisecond},
		} {
			time.Sleep(time.Second)
			offset.set(step.offset)
			now, ok := g.now()
			if ok != step.ok || time.Until(now) != step.reads {
				t.Errorf("offset %v: read %v, %v", step.offset, time.Until(now), ok)
			}
		}
		offset.set(time.Hour)
		g.trust()
		if _, ok := g.now(); !ok {
			t.Error("not trusted")
		}
	})
}

// TestStopsWhileItIsRead checks that no reader waits for an answer that a stopped Raft never gives. The bubble would
// not end with a waiting reader.
func TestStopsWhileItIsRead(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := newReplicas(t, 3, nil).startAll()
			leader := c.leader()
			shard := leader.Shard
			leader.must(t, schedule("a", time.Now().Add(time.Hour)))
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for err := error(nil); err == nil; {
						_, err = shard.Get(t.Context(), "", "a", false)
					}
				})
			}
			c.kill(leader.cfg.NodeID)
			readers.Wait()
		})
	}
}
