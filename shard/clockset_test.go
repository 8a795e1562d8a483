package shard

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
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
