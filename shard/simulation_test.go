package shard

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestTwoDays schedules a task 48 hours ahead, takes the leader away every few hours by cutting it off or killing it,
// and expects the task to start once, at its instant.
func TestTwoDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { // heartbeats are most of the test's cost
			cfg.Timing.Heartbeat, cfg.Timing.Election, cfg.Timing.Lease = time.Minute, time.Minute, time.Minute
		}).startAll()
		due := time.Now().Add(48 * time.Hour).Truncate(time.Millisecond)
		c.leader().must(t, schedule("order-1042", due))
		for round := range 8 {
			time.Sleep(5 * time.Hour)
			lost := c.leader().cfg.NodeID
			if round%2 == 0 {
				c.kill(lost)
			} else {
				c.cut(lost)
			}
			if next := c.leader(c.others(lost)...); next.state(t, "order-1042") != fsmpb.State_STATE_SCHEDULED {
				t.Fatalf("round %d: the new leader does not know the task", round)
			}
			if round%2 == 0 {
				c.start(lost)
			} else {
				c.link(lost)
			}
		}
		time.Sleep(time.Until(due) + time.Minute)
		got := c.sink.of("order-1042")
		if len(got) != 1 || !got[0].at.Equal(due) {
			t.Fatalf("due %v, arrived %v", due, got)
		}
		assert.Equal(t, c.leader().state(t, "order-1042"), fsmpb.State_STATE_DELIVERED, "state")
		c.agree()
	})
}

// TestRetriesToDeadLetter lets every attempt fail. Each retry waits for its backoff, and the last failure makes a dead
// letter.
func TestRetriesToDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		c.sink.respond = func(context.Context, task.Attempt) task.Outcome { return task.Outcome{Error: "500\xff"} }
		cmd := schedule("a", time.Now().Add(time.Second))
		cmd.GetSchedule().Spec.Retry = &fsmpb.Retry{MaxAttempts: 4, MinBackoffMs: 1000, MaxBackoffMs: 3000}
		c.leader().must(t, cmd)
		time.Sleep(time.Minute)
		got := c.sink.all()
		assert.MustEqual(t, len(got), 4, "attempts")
		for i := 1; i < len(got); i++ {
			if wait := got[i].at.Sub(got[i-1].at); wait < time.Second || wait > 3100*time.Millisecond {
				t.Errorf("attempt %d came %v after the one before", i+1, wait)
			}
			if got[i].fence <= got[i-1].fence || got[i].webhookID != got[0].webhookID {
				t.Errorf("attempt %d: %+v after %+v", i+1, got[i], got[i-1])
			}
		}
		assert.Equal(t, c.leader().state(t, "a"), fsmpb.State_STATE_DEAD, "state")
	})
}

// TestLaneWindow lets a receiver hang. Its lane fills the window and no more, and another receiver is not delayed. After
// a second the path has a lane of its own, with a window of its own.
func TestLaneWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, func(cfg *Config) { cfg.Policy.Window = 5 }).startAll()
		release := make(chan struct{})
		c.sink.respond = func(ctx context.Context, a task.Attempt) task.Outcome {
			if a.Task.Spec.Target.Url != "http://receiver.test:80/hook" {
				return task.Outcome{Delivered: true}
			}
			<-release
			return task.Outcome{Delivered: true}
		}
		due := time.Now().Add(time.Minute).Truncate(time.Millisecond)
		var cmds []*fsmpb.Command
		for i := range 50 {
			cmds = append(cmds, schedule(fmt.Sprintf("slow-%02d", i), due))
		}
		other := schedule("other", due)
		other.GetSchedule().Spec.Target.Url = "http://fine.test/"
		n := c.leader()
		n.Do(t.Context(), append(cmds, other))
		time.Sleep(time.Until(due) + hangs - time.Millisecond)
		if got := c.sink.of("other"); len(got) != 1 || !got[0].at.Equal(due) {
			t.Errorf("other receiver: due %v, %v", due, got)
		}
		if got := len(c.sink.all()); got != 6 {
			t.Errorf("%d attempts begun, want the window of 5 and 1", got)
		}
		time.Sleep(5 * time.Second)
		if got := len(c.sink.all()); got > 1+4*5 {
			t.Errorf("%d attempts begun, of which the path's own window allows 5", got)
		}
		close(release)
		time.Sleep(10 * time.Second)
		assert.Equal(t, len(c.sink.all()), 51, "attempts in the end")
		assert.Equal(t, n.machine.Counts().ByState[fsmpb.State_STATE_DELIVERED], 51, "delivered")
	})
}
