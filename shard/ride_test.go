package shard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// TestRide checks how long settles and calls that ride wait after an entry, and that other work takes them along.
func TestRide(t *testing.T) {
	for _, test := range []struct {
		name  string
		other func(*testing.T, *intake) // work that comes after half of maxRide
		after time.Duration
		taken int
	}{
		{"alone", func(*testing.T, *intake) {}, maxRide, 2},
		{"another one", func(_ *testing.T, q *intake) { q.settle(settle{rides: true}) }, maxRide, 3},
		{"an urgent settle", func(_ *testing.T, q *intake) { q.settle(settle{}) }, maxRide / 2, 3},
		{"a user's call", func(t *testing.T, q *intake) { mustEnqueue(t, q, callOf(t, "ns", 10, 1)) }, maxRide / 2, 3},
		{"an Advance", func(_ *testing.T, q *intake) { q.requestAdvance() }, maxRide / 2, 2},
		{"a flush", func(t *testing.T, q *intake) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			assert.Error(t, q.flush(ctx), context.Canceled)
		}, maxRide / 2, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newIntake(1<<30, nil)
				defer q.close(errors.New("the test ends"))
				q.requestTakeover()
				q.take(t.Context())
				began := time.Now()
				q.ride(false)
				c := callOf(t, "ns", 10, 1)
				c.rides = true
				mustEnqueue(t, q, c)
				q.settle(settle{rides: true})
				time.AfterFunc(maxRide/2, func() { test.other(t, q) })
				w := q.take(t.Context())
				assert.Equal(t, time.Since(began), test.after, "waited for")
				assert.Equal(t, w.commands(), test.taken, "commands of the entry")
			})
		})
	}
}

// TestNoneRidesBesideWaitingTasks checks that an entry after which tasks wait in its lanes ends the wait of the settles
// that ride.
func TestNoneRidesBesideWaitingTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newIntake(1<<30, nil)
		defer q.close(errors.New("the test ends"))
		q.requestTakeover()
		q.take(t.Context())
		began := time.Now()
		q.ride(false)
		q.settle(settle{rides: true})
		if w := q.tryTake(); w != nil {
			t.Fatalf("an entry of %d commands", w.commands())
		}
		q.ride(true)
		assert.Equal(t, q.take(t.Context()).commands(), 1, "commands of the entry")
		assert.Equal(t, time.Since(began), 0, "waited for")
	})
}

// TestMayRide checks that a settle rides only where no other task can wait for it.
func TestMayRide(t *testing.T) {
	d := newDecided(&fsmpb.QueuePolicy{Queue: "few", MaxInFlight: 3}, &fsmpb.QueuePolicy{Queue: "rated", MaxPerSecond: 3},
		&fsmpb.QueuePolicy{Queue: "fifo", Fifo: true}, &fsmpb.QueuePolicy{Queue: "groups", GroupInFlight: 1},
		&fsmpb.QueuePolicy{Queue: "free", BatchMax: 10})
	delivered := fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_DELIVERED}
	for _, test := range []struct {
		name  string
		op    *fsmpb.Settle
		queue string
		id    string
		want  bool
	}{
		{"success", &delivered, "free", "a", true},
		{"success in a queue without a policy", &delivered, "other", "a", true},
		{"failure", &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RETRY}, "free", "a", false},
		{"release", &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RELEASED}, "free", "a", false},
		{"occurrence of a schedule", &delivered, "free", task.OccurrenceID("a", 7), false},
		{"limit of attempts", &delivered, "few", "a", false},
		{"limit a second", &delivered, "rated", "a", false},
		{"order", &delivered, "fifo", "a", false},
		{"limit of groups", &delivered, "groups", "a", false},
	} {
		s := &Shard{cfg: Config{Policies: d}}
		assert.Equal(t, s.mayRide(test.op, "", test.queue, test.id), test.want, test.name)
	}
}

// entries returns the number of entries that the node has proposed as leader.
func (n *node) entries(t *testing.T) int {
	var m dto.Metric
	assert.NoError(t, n.metrics.entries.Write(&m))
	return int(m.Counter.GetValue())
}

// TestSteadyFires checks that tasks that come due one after the other share the entries of their grants and ends, on
// time, and that a lane with waiting tasks gets the places that its attempts free at once.
func TestSteadyFires(t *testing.T) {
	const tasks = 1000 // one a millisecond
	for name, test := range map[string]struct {
		window int
		took   time.Duration // of an attempt
		most   int           // entries
	}{
		"room":           {100, 3 * time.Millisecond, 2 * tasks / 10},
		"one at a time":  {1, time.Microsecond, 10 * tasks},
		"a window's lot": {3, 3 * time.Millisecond, 10 * tasks},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newReplicas(t, 1, func(cfg *Config) { cfg.Policy.Window = uint32(test.window) }).startAll()
				c.sink.respond = func(context.Context, task.Attempt) task.Outcome {
					<-time.After(test.took)
					return task.Outcome{Delivered: true}
				}
				n, due := c.leader(), time.Now().Add(time.Minute).Truncate(time.Millisecond)
				var cmds []*fsmpb.Command
				dues := map[string]time.Time{}
				for i := range tasks {
					id := fmt.Sprintf("t%03d", i)
					dues[id] = due.Add(time.Duration(i) * time.Millisecond)
					cmds = append(cmds, schedule(id, dues[id]))
				}
				n.mustAll(t, cmds)
				<-time.After(time.Until(due) - time.Second)
				before := n.entries(t)
				<-time.After(4 * time.Second)
				assert.Equal(t, len(c.sink.all()), tasks, "arrivals")
				for _, a := range c.sink.all() {
					if late := a.at.Sub(dues[a.id]); late < 0 || late > maxRide/2 {
						t.Fatalf("%s came %v late", a.id, late)
					}
				}
				if got := n.entries(t) - before; got > test.most {
					t.Errorf("%d entries for %d tasks, want %d at most", got, tasks, test.most)
				}
				assert.Equal(t, planned(n), dispatch.Stats{Lanes: planned(n).Lanes}, "the planner holds")
			})
		})
	}
}
