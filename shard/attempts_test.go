package shard

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// answers holds each attempt until the test has an outcome for its task.
type answers struct {
	c       *replicas
	outcome map[string]chan task.Outcome
}

// newAnswers makes tasks that are due at once, and waits for their attempts.
func newAnswers(t *testing.T, c *replicas, n *node, ids ...string) *answers {
	a := &answers{c, map[string]chan task.Outcome{}}
	for _, id := range ids {
		a.outcome[id] = make(chan task.Outcome, 9)
	}
	c.sink.respond = func(ctx context.Context, at task.Attempt) task.Outcome {
		select {
		case out := <-a.outcome[at.Task.Id]:
			return out
		case <-ctx.Done():
			return task.Outcome{Error: "no answer"}
		}
	}
	for _, id := range ids {
		n.must(t, schedule(id, time.Now()))
	}
	c.eventually("the attempts", func() bool { return len(c.sink.all()) == len(ids) })
	return a
}

func (a *answers) give(id string, out task.Outcome) {
	a.outcome[id] <- out
	synctest.Wait()
}

// TestNodeThatLeadsAgainRepeatsNothing: a leader loses the majority and leads again. The attempts that ended before,
// meanwhile and afterwards are not made again, and each is settled by its own outcome.
func TestNodeThatLeadsAgainRepeatsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 2, nil)
		c.tune = func(cfg *Config) { cfg.Policy.Timeout, cfg.Policy.LeaseMargin = time.Hour, time.Hour }
		c.startAll()
		n := c.leader()
		ids := []string{"proposed", "queued", "meanwhile", "failed", "after", "failed-after"}
		a := newAnswers(t, c, n, ids...)
		first := n.current()
		yes, no := task.Outcome{Delivered: true}, task.Outcome{Error: "500", Permanent: true}
		c.cut(n.cfg.NodeID)
		a.give("proposed", yes)
		a.give("queued", yes)
		<-first.ctx.Done()
		c.eventually("the end of the leadership", func() bool { return n.current() == nil })
		a.give("meanwhile", yes)
		a.give("failed", no)
		c.link(n.cfg.NodeID)
		c.next(n, first) // the other replica lacks the entry that was under way, and wins no vote
		time.Sleep(time.Minute)
		a.give("after", yes)
		a.give("failed-after", no)
		time.Sleep(time.Minute)
		for _, id := range ids {
			want := fsmpb.State_STATE_DELIVERED
			if slices.Contains([]string{"failed", "failed-after"}, id) {
				want = fsmpb.State_STATE_DEAD
			}
			if got := n.state(t, id); got != want || len(c.sink.of(id)) != 1 {
				t.Errorf("%s is %v after %d attempts", id, got, len(c.sink.of(id)))
			}
		}
		if left := len(n.attempts.open); left > 0 {
			t.Errorf("%d attempts are still open", left)
		}
	})
}

// TestSuccessDoesNotOutliveAnotherLeader: another node leads meanwhile and makes a later attempt of the task. The
// success that the first leader could not commit is thrown away when that node leads again.
func TestSuccessDoesNotOutliveAnotherLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, nil)
		c.tune = func(cfg *Config) { cfg.Policy.Timeout, cfg.Policy.LeaseMargin = time.Hour, time.Hour }
		c.startAll()
		n := c.leader()
		a := newAnswers(t, c, n, "a")
		c.cut(n.cfg.NodeID)
		next := c.leader(c.others(n.cfg.NodeID)...)
		c.eventually("the repeat", func() bool { return len(c.sink.of("a")) == 2 })
		a.give("a", task.Outcome{Delivered: true}) // to the attempt that began first
		a.give("a", task.Outcome{Error: "410", Permanent: true})
		c.eventually("the dead letter", func() bool { return next.state(t, "a") == fsmpb.State_STATE_DEAD })
		if len(n.attempts.open) != 1 {
			t.Fatal("the success is not kept")
		}
		c.link(n.cfg.NodeID)
		c.eventually("the way back", func() bool { return next.Transfer(t.Context(), n.cfg.NodeID) == nil })
		c.leader(n.cfg.NodeID)
		time.Sleep(time.Minute)
		if got := n.state(t, "a"); got != fsmpb.State_STATE_DEAD || len(c.sink.of("a")) != 2 {
			t.Errorf("the task is %v after %d attempts", got, len(c.sink.of("a")))
		}
		if left := len(n.attempts.open); left > 0 {
			t.Errorf("%d attempts are still open", left)
		}
	})
}
