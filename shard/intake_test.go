package shard

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// callOf returns a call of a namespace with n commands.
func callOf(t *testing.T, namespace string, payload, n int) *call {
	t.Helper()
	c := call1(t, payload, n)
	c.namespace = namespace
	return c
}

func mustEnqueue(t *testing.T, q *intake, calls ...*call) {
	t.Helper()
	for _, c := range calls {
		assert.NoError(t, q.enqueue(c, nil))
	}
}

// TestCallBesideAStorm checks that a call is in the next entry, however many calls of another namespace wait.
func TestCallBesideAStorm(t *testing.T) {
	for name, large := range map[string]int{"many": 10, "large": 2 << 10} {
		t.Run(name, func(t *testing.T) {
			q := newIntake(1<<30, nil)
			q.requestTakeover()
			for range 500 {
				mustEnqueue(t, q, callOf(t, "storm", large, 50))
			}
			for range 5 {
				calm := callOf(t, "calm", 100, 10)
				mustEnqueue(t, q, calm)
				w := q.tryTake()
				assert.Equal(t, calm.taken, 10, "of the call's commands are in the next entry")
				commands, bytes := commandsOf(w), w.bytes
				if commands > firstPace/commandBytes || bytes > firstPace {
					t.Errorf("a long entry of %d commands and %d bytes", commands, bytes)
				}
				if commands < firstPace/commandBytes/2 && bytes < firstPace/2 {
					t.Errorf("an entry of %d commands and %d bytes", commands, bytes)
				}
			}
		})
	}
}

func commandsOf(w *work) (n int) {
	for _, s := range w.segments {
		n += s.n
	}
	return n
}

// TestEntriesAreFullAlone checks that a namespace gets full entries before and a while after calls of another one.
func TestEntriesAreFullAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newIntake(1<<30, nil)
		q.requestTakeover()
		for range 200 {
			mustEnqueue(t, q, callOf(t, "a", 0, 100))
		}
		take := func(want int) {
			t.Helper()
			if n := commandsOf(q.tryTake()); n != want {
				t.Errorf("an entry of %d commands, want %d", n, want)
			}
		}
		take(maxEntryCommands)
		mustEnqueue(t, q, callOf(t, "b", 0, 1))
		take(firstPace / commandBytes)
		time.Sleep(time.Second)
		take(maxEntryCommands)
	})
}

// TestNamespacesShareEntries checks that namespaces with many calls share the entries by weight, in commands or bytes.
func TestNamespacesShareEntries(t *testing.T) {
	for name, payload := range map[string]int{"commands": 0, "bytes": 2000} {
		t.Run(name, func(t *testing.T) {
			q := newIntake(1<<30, func(namespace string) int { return map[string]int{"a": 1, "b": 3}[namespace] })
			q.requestTakeover()
			for i := range 400 {
				mustEnqueue(t, q, callOf(t, "a", payload, 1+i%7), callOf(t, "b", payload, 30))
			}
			taken := map[string]int{}
			for range 24 {
				for _, s := range q.tryTake().segments {
					taken[s.call.namespace] += s.n
				}
			}
			if ratio := float64(taken["b"]) / float64(taken["a"]); ratio < 2.5 || ratio > 3.5 {
				t.Errorf("%v", taken)
			}
		})
	}
}

// TestStormLeavesRoom checks that a namespace alone gets all of the intake, and that each further one that takes what it
// can get still has half of the rest, up to twice the limit for all of them.
func TestStormLeavesRoom(t *testing.T) {
	const limit = 1 << 20
	q := newIntake(limit, nil)
	fill := func(namespace string) (bytes int) {
		for {
			c := callOf(t, namespace, 1000, 10)
			if err := q.enqueue(c, nil); errors.Is(err, task.ErrOverloaded) {
				return bytes
			}
			bytes += c.waiting()
		}
	}
	for most := limit; most > limit/16; most /= 2 {
		if got := fill(fmt.Sprint("namespace", most)); got < most*8/10 || got > most*12/10 {
			t.Errorf("%d bytes of %d", got, most)
		}
	}
	if q.pendingBytes() > 2*limit {
		t.Errorf("%d bytes in all", q.pendingBytes())
	}
}

// TestSettlesShareEntries checks that namespaces share the settles of an entry by weight, each in order, that settles
// beside calls of another namespace leave room for these, and that a namespace alone has its settles in full entries.
func TestSettlesShareEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newIntake(1<<30, func(namespace string) int { return map[string]int{"storm": 1, "calm": 3}[namespace] })
		q.requestTakeover()
		settle := func(namespace string, n int) {
			for i := range n {
				q.settle(settle{framed: []byte{byte(i)}, lane: task.Lane{Namespace: namespace}})
			}
		}
		settle("storm", 2000)
		assert.Equal(t, len(q.tryTake().settles), maxEntryCommands*3/4, "settles of a namespace alone")
		settle("calm", 12)
		mustEnqueue(t, q, callOf(t, "calm", 100, 1))
		w := q.tryTake()
		if n := len(w.settles) + commandsOf(w); len(w.segments) != 1 || n > firstPace/commandBytes || n < firstPace/commandBytes/2 {
			t.Errorf("%d settles and %d calls in an entry", len(w.settles), len(w.segments))
		}
		next := 0
		for _, s := range w.settles {
			if s.lane.Namespace == "calm" && s.framed[0] == byte(next) {
				next++
			}
		}
		assert.Equal(t, next, 12, "of the neighbour's settles in order")
		time.Sleep(time.Second)
		q.tryTake()
		if n := len(q.tryTake().settles); n < maxEntryCommands/4 {
			t.Errorf("%d settles in an entry when the neighbour has been still for a while", n)
		}
	})
}

// TestCallsWaitForEachOther checks that calls that come within a pause are in one entry at its end, and that an Advance
// ends the pause.
func TestCallsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newIntake(1<<30, nil)
		defer q.close(errors.New("the test ends"))
		q.requestTakeover()
		mustEnqueue(t, q, callOf(t, "ns", 10, 1))
		q.take(t.Context())
		began := time.Now()
		q.pause(maxPause)
		mustEnqueue(t, q, callOf(t, "ns", 10, 1))
		go func() {
			<-time.After(maxPause / 2)
			mustEnqueue(t, q, callOf(t, "ns", 10, 1))
		}()
		if n, took := commandsOf(q.take(t.Context())), time.Since(began); n != 2 || took != maxPause {
			t.Errorf("%d commands after %v", n, took)
		}
		began = time.Now()
		q.pause(maxPause)
		mustEnqueue(t, q, callOf(t, "ns", 10, 1))
		q.requestAdvance()
		if w, took := q.take(t.Context()), time.Since(began); w.advance == nil || commandsOf(w) != 1 || took != 0 {
			t.Errorf("%d commands and the Advance %v after %v", commandsOf(w), w.advance, took)
		}
	})
}

// TestPauseOfCalls checks that calls wait after an entry that took longer than the quick ones, and not after these.
func TestPauseOfCalls(t *testing.T) {
	l := newLatencies()
	if d := l.pause(time.Second); d != 0 {
		t.Errorf("a pause of %v before anything is known", d)
	}
	for i := range 256 {
		l.add(time.Millisecond + time.Duration(i%10)*100*time.Microsecond)
	}
	for took, want := range map[time.Duration]time.Duration{
		500 * time.Microsecond: 0,
		time.Millisecond:       0,
		3 * time.Millisecond:   2 * time.Millisecond,
		time.Second:            maxPause,
	} {
		if d := l.pause(took); d != want {
			t.Errorf("a pause of %v after %v, want %v", d, took, want)
		}
	}
}
