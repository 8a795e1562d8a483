package shard

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// saysOf returns the settle with which a consumer ends a leased task.
func saysOf(t *fsmpb.Task, verdict fsmpb.Verdict, delayMs *int64) *fsmpb.Command {
	return &fsmpb.Command{Namespace: t.Namespace, Id: t.Id, Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
		Fence: t.Fence, Occurrence: t.Occurrence, Verdict: verdict, Consumer: true, DelayMs: delayMs,
		Error: strings.Repeat("no ", 1000),
	}}}
}

// TestConsumersSettles checks that the leader sets the time of a task's next attempt, and makes a dead letter of the
// task after the last one.
func TestConsumersSettles(t *testing.T) {
	ms := func(d time.Duration) *int64 { n := d.Milliseconds(); return &n }
	const (
		retry     = fsmpb.Verdict_VERDICT_RETRY
		delivered = fsmpb.State_STATE_DELIVERED
		retrying  = fsmpb.State_STATE_RETRYING
	)
	for _, test := range []struct {
		name     string
		attempts uint32 // the queue's greatest number of attempts
		verdict  fsmpb.Verdict
		delay    *int64
		state    fsmpb.State
		from, to time.Duration // the range of the next attempt's time
	}{
		{"ack", 0, fsmpb.Verdict_VERDICT_DELIVERED, nil, delivered, 0, 0},
		{"release", 0, fsmpb.Verdict_VERDICT_RELEASED, nil, fsmpb.State_STATE_READY, 0, 0},
		{"nack", 0, retry, nil, retrying, 2 * time.Second, 4 * time.Second},
		{"nack with a delay", 0, retry, ms(time.Hour), retrying, time.Hour, time.Hour},
		{"nack at once", 0, retry, ms(0), fsmpb.State_STATE_READY, 0, 0},
		{"nack with a delay below zero", 0, retry, ms(-time.Hour), fsmpb.State_STATE_READY, 0, 0},
		{"nack for ever", 0, retry, ms(1 << 62), retrying, task.MaxDelay, task.MaxDelay},
		{"the last nack", 1, retry, ms(time.Hour), fsmpb.State_STATE_DEAD, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDecided(&fsmpb.QueuePolicy{
					Queue: "q", Retry: &fsmpb.Retry{MaxAttempts: test.attempts, MinBackoffMs: 2000},
				})
				c := newReplicas(t, 1, d.governs).startAll()
				n := c.leader()
				n.must(t, inQueue("q", "a", time.Now()))
				p, demand := n.lease(t, "q", 1, time.Minute)
				time.Sleep(time.Second)
				demand.Withdraw()
				if p.ids() != "a" {
					t.Fatalf("leased %q", p.ids())
				}
				at := time.Now()
				if got := n.must(t, saysOf(p.tasks[0], test.verdict, test.delay)); got.Code != fsmpb.Code_CODE_OK {
					t.Fatal(got)
				}
				time.Sleep(100 * time.Millisecond)
				got, err := n.Get(t.Context(), "", "a", false)
				if err != nil || got.State != test.state {
					t.Fatalf("%v, %v, want %v", got, err, test.state)
				}
				if wait := time.UnixMilli(got.NextAttemptAtMs).Sub(at); test.to > 0 &&
					(wait < test.from-time.Millisecond || wait > test.to) {
					t.Errorf("again after %v, want %v to %v", wait, test.from, test.to)
				}
				if len(got.LastError) > task.MaxErrorBytes {
					t.Errorf("an error of %d bytes", len(got.LastError))
				}
				if test.state != delivered {
					return
				}
				if got := n.must(t, saysOf(p.tasks[0], test.verdict, nil)); got.Code != fsmpb.Code_CODE_OK {
					t.Errorf("the same again: %v", got)
				}
				if got := n.must(t, saysOf(p.tasks[0], retry, nil)); got.Code != fsmpb.Code_CODE_STALE {
					t.Errorf("another word afterwards: %v", got)
				}
			})
		})
	}
}

// TestLimitedLeases checks that consumers get as many tasks of a limited queue as may be under way, and none while the
// queue is paused.
func TestLimitedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided(&fsmpb.QueuePolicy{Queue: "q", MaxInFlight: 3})
		c := newReplicas(t, 1, d.governs).startAll()
		n := c.leader()
		var cmds []*fsmpb.Command
		for i := range 10 {
			cmds = append(cmds, inQueue("q", fmt.Sprint(i), time.Now()))
		}
		n.mustAll(t, cmds)
		p, demand := n.lease(t, "q", 100, time.Hour)
		defer demand.Withdraw()
		time.Sleep(10 * time.Second)
		if p.ids() != "012" {
			t.Fatalf("leased %q of a queue that may have 3 under way", p.ids())
		}
		n.must(t, saysOf(p.tasks[1], fsmpb.Verdict_VERDICT_DELIVERED, nil))
		time.Sleep(20 * time.Millisecond)
		if p.ids() != "0123" {
			t.Errorf("leased %q after one was settled", p.ids())
		}
		d.set(&fsmpb.QueuePolicy{Queue: "q", Paused: true})
		time.Sleep(time.Second)
		n.must(t, saysOf(p.tasks[0], fsmpb.Verdict_VERDICT_DELIVERED, nil))
		time.Sleep(time.Minute)
		if p.ids() != "0123" {
			t.Errorf("leased %q while paused", p.ids())
		}
		d.remove("q")
		time.Sleep(time.Second)
		if p.ids() != "0123456789" {
			t.Errorf("leased %q in the end", p.ids())
		}
	})
}
