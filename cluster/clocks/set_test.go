package clocks

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
)

// room is a set of nodes whose clocks can be set, and which can fall silent.
type room struct {
	mu     sync.Mutex // guards the fields below
	ahead  map[string]time.Duration
	silent map[string]bool
	asked  int
	back   time.Duration // delay of answers
}

func (r *room) set(node string, ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead[node] = ahead
}

func (r *room) silence(nodes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range nodes {
		r.silent[n] = true
	}
}

func (r *room) speak(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.silent, node)
}

func (r *room) clock(node string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.ahead[node])
}

func (r *room) AskTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	r.mu.Lock()
	r.asked++
	silent, back := r.silent[node], r.back
	r.mu.Unlock()
	if silent {
		<-ctx.Done()
		return time.Time{}, time.Time{}, ctx.Err()
	}
	time.Sleep(time.Millisecond) // of the bubble's clock
	at := r.clock(node)
	time.Sleep(back)
	return at, at, nil
}

// enter runs a test in a room with two other nodes, one round after the start.
func enter(t *testing.T, test func(t *testing.T, r *room, c *Clocks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &room{ahead: map[string]time.Duration{}, silent: map[string]bool{}}
		c := Start(Config{
			Self: "self", Clock: func() time.Time { return r.clock("self") }, Peers: r, Directory: others{"self", "a", "b"},
		})
		defer c.Close()
		time.Sleep(time.Second / 2) // of the bubble's clock
		test(t, r, c)
	})
}

func agrees(t *testing.T, c *Clocks) error {
	t.Helper()
	return c.Agrees(t.Context(), []string{"self", "a", "b"})
}

// Slow answers prove nothing: earlier samples count for a while, and then none do. But no clock is held to be wrong.
func TestSlowAnswersSayNothing(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		r.mu.Lock()
		r.back = 900 * time.Millisecond
		r.mu.Unlock()
		for s := range 60 {
			time.Sleep(time.Second) // of the bubble's clock
			before := time.Now()
			now, sure := c.Now()
			if now.Before(before) || now.After(time.Now()) {
				t.Fatalf("after %d s it goes by another time, %v off", s, now.Sub(before))
			}
			if by, apart := c.Apart(); apart {
				t.Fatalf("after %d s this clock is held to be apart by %v", s, by)
			}
			if s < 15 && !sure || s > 50 && sure {
				t.Errorf("sure after %d s: %v", s, sure)
			}
		}
	})
}

// A node notices at the next reading that its clock was set, and uses the others' time.
func TestOwnClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -2 * time.Second, 2 * time.Second, time.Hour} {
		enter(t, func(t *testing.T, r *room, c *Clocks) {
			r.set("self", by)
			if off := time.Until(told(c)); off.Abs() > 10*time.Millisecond {
				t.Errorf("set by %v, it goes by a time that is off by %v", by, off)
			}
			if got, apart := c.Apart(); !apart || (got+by).Abs() > 10*time.Millisecond {
				t.Errorf("set by %v, it is apart by %v: %v", by, got, apart)
			}
			assert.ErrorIs(t, agrees(t, c), shard.ErrClockApart, "set by %v, it is told", by)
			r.set("self", 0)
			if by, apart := c.Apart(); apart {
				t.Errorf("set right again, it is still apart by %v", by)
			}
			assert.Equal(t, time.Until(told(c)), 0, "set right again, it goes by a time that is off by")
		})
	}
}

// After a machine slept, all wall clocks have moved against its monotonic clock. No clock is wrong then.
func TestMonotonicClockStoodStill(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		for _, n := range []string{"self", "a", "b"} {
			r.set(n, time.Hour)
		}
		if off := time.Until(told(c)); off < time.Hour {
			t.Errorf("it goes by a time that is off by %v", off-time.Hour)
		}
		if by, apart := c.Apart(); apart {
			t.Errorf("it is apart by %v", by)
		}
		assert.Equal(t, agrees(t, c), nil)
	})
}

// A clock within the bound is left as it is, and reading it asks no other node.
func TestSmallOffsetsAreLeftAlone(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		r.set("self", 200*time.Millisecond)
		assert.Equal(t, time.Until(told(c)), 200*time.Millisecond, "it goes by a time that is off by")
		asked := r.asked
		for range 10 {
			c.Now()
			c.Apart()
		}
		if r.asked != asked {
			t.Errorf("it asked %d times", r.asked-asked)
		}
	})
}

// Samples of a node that has just died still count.
func TestSilentVoterCountsForAWhile(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		r.set("a", time.Minute)
		time.Sleep(time.Second) // of the bubble's clock, for a round
		r.silence("b")
		began := time.Now()
		assert.Equal(t, agrees(t, c), nil)
		if took := time.Since(began); took > pingPatience {
			t.Errorf("it took %v", took)
		}
		time.Sleep(freshFor) // of the bubble's clock
		if err := agrees(t, c); !errors.Is(err, ErrUnsure) {
			t.Errorf("told %v although the one is silent and the other far", err)
		}
	})
}

// A clock that was wrong when its node was last heard does not prove which of two others is right: it may have been
// corrected since.
func TestWrongClockIsNoWitness(t *testing.T) {
	for _, wrong := range []time.Duration{500 * time.Millisecond, 2 * time.Second, -500 * time.Millisecond} {
		enter(t, func(t *testing.T, r *room, c *Clocks) {
			r.set("a", wrong)
			time.Sleep(time.Second) // of the bubble's clock, for a round
			r.silence("a")
			r.set("a", 0)
			time.Sleep(2 * time.Second) // of the bubble's clock
			if now, sure := c.Now(); !sure || time.Until(now) != 0 {
				t.Errorf("%v: two clocks agree, and it is off by %v, sure %v", wrong, time.Until(now), sure)
			}
			r.set("self", 500*time.Millisecond)
			if now, sure := c.Now(); sure {
				t.Errorf("%v: sure of a time that is off by %v", wrong, time.Until(now))
			}
			if by, apart := c.Apart(); apart {
				t.Errorf("%v: it is apart by %v", wrong, by)
			}
			assert.ErrorIs(t, agrees(t, c), ErrUnsure, "%v: it is told", wrong)
			r.speak("a")
			time.Sleep(time.Second) // of the bubble's clock, for a round
			if now, sure := c.Now(); !sure || time.Until(now).Abs() > 10*time.Millisecond {
				t.Errorf("%v: all are heard, and it is off by %v, sure %v", wrong, time.Until(now), sure)
			}
			assert.ErrorIs(t, agrees(t, c), shard.ErrClockApart, "%v: all are heard, and it is told", wrong)
		})
	}
}

// Of three clocks of which no two agree, none proves another wrong.
func TestNoTwoAgree(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		r.set("self", 500*time.Millisecond)
		r.set("a", 2*time.Second)
		if now, sure := c.Now(); sure {
			t.Errorf("sure of a time that is off by %v", time.Until(now))
		}
		assert.ErrorIs(t, agrees(t, c), ErrUnsure, "it is told")
	})
}

// A node trusts its clock while all others are silent.
func TestAloneItTrustsItsClock(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		r.silence("a", "b")
		time.Sleep(freshFor + time.Second) // of the bubble's clock
		r.set("self", time.Hour)
		if off := time.Until(told(c)); off < time.Hour-time.Second {
			t.Errorf("it goes by a time that is off by %v", off)
		}
		if by, apart := c.Apart(); apart {
			t.Errorf("apart by %v", by)
		}
	})
}

// told returns the time that a node uses, sure or not.
func told(c *Clocks) time.Time {
	now, _ := c.Now()
	return now
}

// A node is not sure before it has compared its clock, or while it knows one other clock that is apart. It becomes sure
// as soon as it can, without a round of its own in between.
func TestNotSureUntilCompared(t *testing.T) {
	enter(t, func(t *testing.T, r *room, c *Clocks) {
		if _, sure := c.Now(); !sure {
			t.Error("three clocks agree, and it is not sure")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := &room{ahead: map[string]time.Duration{"self": -time.Hour}, silent: map[string]bool{"a": true, "b": true}}
		c := Start(Config{
			Self: "self", Clock: func() time.Time { return r.clock("self") }, Peers: r, Directory: others{"self", "a", "b"},
		})
		defer c.Close()
		for _, speaks := range []string{"", "a"} {
			r.speak(speaks)
			time.Sleep(unsureFor)
			if _, sure := c.Now(); sure {
				t.Errorf("sure of a clock that is an hour off, with %q to compare it with", speaks)
			}
		}
		r.speak("b")
		time.Sleep(unsureFor)
		if now, sure := c.Now(); !sure || time.Until(now).Abs() > 10*time.Millisecond {
			t.Errorf("with two others that agree: off by %v, sure %v", time.Until(now), sure)
		}
	})
}

// growing is a directory that hears of other nodes later.
type growing struct {
	others
	mu sync.Mutex
}

func (g *growing) Nodes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.others
}

// few are the nodes of a cluster that may have only one.
type few struct{ others }

func (f few) IsAlone() bool { return len(f.others) == 1 }

// A node that was cut off since its start hears of no other node. It does not count as alone: it must not trust its
// clock when that is set meanwhile.
func TestCutOffIsNotAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{ahead: map[string]time.Duration{}, silent: map[string]bool{}}
		nodes := &growing{others: others{"self"}}
		c := Start(Config{
			Self: "self", Clock: func() time.Time { return r.clock("self") }, Peers: r, Directory: nodes,
		})
		defer c.Close()
		for _, ahead := range []time.Duration{0, time.Hour} {
			r.set("self", ahead)
			time.Sleep(2 * time.Second) // of the bubble's clock, for a round
			if _, sure := c.Now(); sure {
				t.Errorf("sure of a clock that is %v ahead, having heard of nobody", ahead)
			}
		}
		nodes.mu.Lock()
		nodes.others = others{"self", "a", "b"}
		nodes.mu.Unlock()
		time.Sleep(unsureFor)
		if now, sure := c.Now(); !sure || time.Until(now).Abs() > 10*time.Millisecond {
			t.Errorf("with two others that agree: off by %v, sure %v", time.Until(now), sure)
		}
	})
}

// Two clocks that agree are enough, and so is one clock in a cluster of one.
func TestSureOfFew(t *testing.T) {
	for _, present := range []others{{"self", "a"}, {"self", "a", "b"}, {"self"}} {
		synctest.Test(t, func(t *testing.T) {
			r := &room{ahead: map[string]time.Duration{"a": 100 * time.Millisecond}, silent: map[string]bool{"b": true}}
			c := Start(Config{
				Self: "self", Clock: func() time.Time { return r.clock("self") }, Peers: r, Directory: few{present},
			})
			defer c.Close()
			if _, sure := c.Now(); !sure {
				t.Errorf("not sure among %v", present)
			}
		})
	}
}
