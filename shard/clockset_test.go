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

// compare has a node compare its clock with those that the test has set.
func (c *replicas) compare(cfg *Config) {
	right := func(id string) bool { return time.Until(c.nodes[id].offset.now()).Abs() < 250*time.Millisecond }
	self := cfg.NodeID
	cfg.ClockAgrees = func(context.Context, []string) error {
		if !right(self) {
			return fmt.Errorf("%w, says the test", ErrClockApart)
		}
		return nil
	}
	cfg.MayLead = right
}

// A leader whose clock is set gives the leadership to one whose clock is right, and nothing is early or late for it. It
// gets it back when its clock is right again, and not before.
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
				defer c.close()
				home := c.nodes["n1"]
				c.eventually("the preferred node leads", home.IsLeader)
				begin := time.Now().Add(time.Second).Truncate(time.Second)
				const every, tasks = 50 * time.Millisecond, 400
				for i := range tasks {
					home.must(t, schedule(fmt.Sprint(i), begin.Add(time.Duration(i)*every)))
				}
				time.Sleep(time.Until(begin.Add(2*time.Second + every/2)))
				home.offset.set(by)
				time.Sleep(10 * time.Second) // it is preferred, and would be given the leadership several times
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

// TestClockIsSetWhileNothingIsDue sets all clocks ahead, as when a machine that had slept wakes up: what is due by the
// clock then starts within a look at it, and not when it would have been due had the clock not been set.
func TestClockIsSetWhileNothingIsDue(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, nodes, nil).startAll()
				defer c.close()
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

// TestFiresNowAfterClocksAreSetBack sets all clocks right that were ahead, under which the log's time had gone on: what
// is fired now then starts now. A node alone goes by its clock at once, others when they have agreed on theirs.
func TestFiresNowAfterClocksAreSetBack(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, nodes, nil).startAll()
				defer c.close()
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

// What waits for the Takeover is written down by the clock that others agree with then, and not by the one under which
// it came: a tombstone to be kept until a while ago would be forgotten at once.
func TestCallsWaitForTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var agreed atomic.Bool
		c := newReplicas(t, 3, func(cfg *Config) {
			cfg.ClockAgrees = func(context.Context, []string) error {
				if !agreed.Load() {
					return errors.New("nobody agrees, says the test")
				}
				return nil
			}
		})
		setAll := func(by time.Duration) {
			for _, n := range c.nodes {
				n.offset.set(by)
			}
		}
		setAll(-time.Hour)
		c.startAll()
		defer c.close()
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
