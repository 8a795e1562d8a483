package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// clocks are Clocks that a test sets.
type clocks func(voters []string) error

func (c clocks) Agrees(_ context.Context, voters []string) error { return c(voters) }

// compare makes a node compare its clock with the clocks that the test has set.
func (c *replicas) compare(cfg *Config) {
	right := func(id string) bool { return time.Until(c.nodes[id].offset.now()).Abs() < 250*time.Millisecond }
	self := cfg.NodeID
	cfg.Clocks = clocks(func([]string) error {
		if !right(self) {
			return fmt.Errorf("%w, says the test", ErrClockApart)
		}
		return nil
	})
	cfg.Node = testNode{mayLead: right}
}

// TestLeaderClockIsSet checks that a leader with a wrong clock gives the leadership to a node with a right one, and
// that no task starts early or late because of it. The first node gets the leadership back only once its clock is right
// again.
func TestLeaderClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -2 * time.Second, 2 * time.Second, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c *replicas
				c = newReplicas(t, 3, func(cfg *Config) {
					c.compare(cfg)
					cfg.Timing, cfg.Preferred = LAN(), "n1"
				})
				c.startAll()
				home := c.nodes["n1"]
				c.eventually("the preferred node leads", home.IsLeader)
				begin := time.Now().Add(time.Second).Truncate(time.Second)
				const every, tasks = 50 * time.Millisecond, 400
				for i := range tasks {
					home.must(t, schedule(fmt.Sprint(i), begin.Add(time.Duration(i)*every)))
				}
				time.Sleep(time.Until(begin.Add(2*time.Second + every/2)))
				home.offset.set(by)
				time.Sleep(10 * time.Second) // this node is preferred, and would get the leadership several times
				if home.IsLeader() {
					t.Error("a node leads whose clock is wrong")
				}
				home.offset.set(0)
				time.Sleep(15 * time.Second)
				if !home.IsLeader() {
					t.Error("the preferred node does not lead again")
				}
				for i := range tasks {
					due := begin.Add(time.Duration(i) * every)
					got := c.sink.of(fmt.Sprint(i))
					if len(got) != 1 || got[0].at.Before(due) || got[0].at.Sub(due) > time.Second {
						t.Errorf("due %v: %v", due, got)
					}
				}
			})
		})
	}
}

// TestClockIsSetWhileNothingIsDue sets all clocks ahead, as when a machine wakes from sleep. Tasks that are due by the
// new time start at the leader's next look at the clock, not at the instant that the old time would have given.
func TestClockIsSetWhileNothingIsDue(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, nodes, nil).startAll()
				n := c.leader()
				n.must(t, schedule("a", time.Now().Add(30*time.Minute)))
				time.Sleep(10 * time.Minute)
				for _, n := range c.nodes {
					n.offset.set(time.Hour)
				}
				time.Sleep(n.cfg.Timing.ClockLook + time.Second)
				if got := c.sink.of("a"); len(got) != 1 {
					t.Errorf("%d attempts", len(got))
				}
			})
		})
	}
}

// TestFiresNowAfterClocksAreSetBack sets all clocks right after they ran ahead and took the log's time with them. A
// task fired now then starts now. A single node follows its clock at once, several nodes once they have agreed on the
// time.
func TestFiresNowAfterClocksAreSetBack(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, nodes, nil).startAll()
				n := c.leader()
				look := n.cfg.Timing.ClockLook + time.Second
				setAll := func(by time.Duration) {
					for _, n := range c.nodes {
						n.offset.set(by)
					}
				}
				n.must(t, schedule("a", time.Now().Add(24*time.Hour)))
				setAll(time.Hour)
				time.Sleep(look)
				n.must(t, schedule("b", time.Now().Add(24*time.Hour)))
				setAll(0)
				if nodes > 1 {
					time.Sleep(look)
				}
				n.must(t, &fsmpb.Command{Id: "a", Op: &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}})
				time.Sleep(time.Second)
				if got := c.sink.of("a"); len(got) != 1 {
					t.Errorf("%d attempts", len(got))
				}
			})
		})
	}
}

// TestCallsWaitForTheClock checks that commands waiting for the Takeover get their times from the clock agreed on then,
// not from the clock at their arrival. A tombstone to be kept until a time in the past would be forgotten at once.
func TestCallsWaitForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var agreed atomic.Bool
		c := newReplicas(t, 3, func(cfg *Config) {
			cfg.Clocks = clocks(func([]string) error {
				if !agreed.Load() {
					return errors.New("nobody agrees, says the test")
				}
				return nil
			})
		})
		setAll := func(by time.Duration) {
			for _, n := range c.nodes {
				n.offset.set(by)
			}
		}
		setAll(-time.Hour)
		c.startAll()
		var n *node
		c.eventually("a leader that may not take over yet", func() bool {
			for _, one := range c.nodes {
				if one.group.Leads() {
					n = one
				}
			}
			return n != nil
		})
		replies := make(chan []task.Reply)
		go func() {
			replies <- n.Do(t.Context(), []*fsmpb.Command{schedule("a", time.Now().Add(time.Hour)), cancelOf("a")})
		}()
		synctest.Wait()
		setAll(0)
		agreed.Store(true)
		for _, r := range <-replies {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		time.Sleep(9 * time.Minute)
		task, err := c.leader().Get(t.Context(), "", "a", false)
		if err != nil || task.GetState() != fsmpb.State_STATE_CANCELLED {
			t.Errorf("the tombstone after 9 minutes: %v, %v", task, err)
		}
	})
}
