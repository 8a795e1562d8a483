package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

// Pulled tasks go through a whole node: they are waited for, leased, settled in every way, dead, replayed and dropped.
func TestTasksAreConsumed(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		_, c := start(t, testConfig(t))
		ctx := t.Context()
		_, err := c.PutQueue(ctx, client.Queue{Name: "q", Retry: &client.Retry{MaxAttempts: 1}})
		assert.NoError(t, err)
		first := make(chan []client.Leased)
		go func() {
			tasks, err := c.Lease(ctx, "q", client.Demand{Wait: 20 * time.Second})
			assert.Equal(t, err, nil)
			first <- tasks
		}()
		const n = 20
		for i := range n {
			_, err := c.Schedule(ctx, client.Task{ID: fmt.Sprint("t", i), Queue: "q", Delay: 20 * time.Millisecond})
			assert.NoError(t, err)
		}
		receipts := map[string]string{}
		for tasks := <-first; len(receipts) < n; {
			for _, task := range tasks {
				assert.MustEqual(t, receipts[task.ID], "", "%s is leased twice", task.ID)
				receipts[task.ID] = task.Receipt
			}
			var err error
			tasks, err = c.Lease(ctx, "q", client.Demand{Max: n, Wait: time.Second})
			assert.NoError(t, err)
		}
		settle := func(s client.Settlement, want error) {
			t.Helper()
			for _, r := range c.Settle(ctx, "q", s) {
				assert.ErrorIs(t, r.Err, want, "%s", r.ID)
			}
		}
		ack := client.Settlement{Ack: []string{receipts["t0"], receipts["t1"]}}
		settle(ack, nil)
		settle(ack, nil) // a repeat
		settle(client.Settlement{Release: []string{receipts["t0"]}}, client.ErrConflict)
		settle(client.Settlement{Extend: []client.Extend{{Receipt: receipts["t2"], Lease: time.Hour}}}, nil)
		settle(client.Settlement{Nack: []client.Nack{{Receipt: receipts["t3"], Reason: "no stock"}, {Receipt: receipts["t4"]}}}, nil)
		settle(client.Settlement{Release: []string{receipts["t5"]}}, nil)
		if back, err := c.Lease(ctx, "q", client.Demand{Wait: 5 * time.Second}); err != nil || len(back) != 1 ||
			back[0].ID != "t5" || back[0].Attempt != 1 {
			t.Errorf("released: %+v %v", back, err)
		}
		if dead, err := c.Get(ctx, "t3"); err != nil || dead.State != client.StateDead || dead.LastError != "no stock" ||
			len(dead.History) != 1 {
			t.Errorf("%+v %v", dead, err)
		}
		if q, err := c.Queue(ctx, "q"); err != nil || q.Counts.Leased != n-4 || q.Counts.Dead != 2 || q.Counts.Delivered != 2 {
			t.Errorf("%+v %v", q.Counts, err)
		}
		assert.ErrorIs(t, c.DeleteQueue(ctx, "q"), client.ErrConflict, "a queue with tasks is deleted")
		if count, err := c.Replay(ctx, "q", client.DeadFilter{IDs: []string{"t3", "t2"}}); count != 1 || err != nil {
			t.Errorf("%d replayed, %v", count, err)
		}
		if count, err := c.DropDead(ctx, "q", client.DeadFilter{}); count != 1 || err != nil {
			t.Errorf("%d dropped, %v", count, err)
		}
		_, err = c.Get(ctx, "t4")
		assert.ErrorIs(t, err, client.ErrNotFound, "t4 is still there")
	})
}

// A paused queue hands out no task, and a policy is in force when the call returns.
func TestPausedQueueIsNotConsumed(t *testing.T) {
	t.Parallel()
	simulate(t, func(t *testing.T) {
		_, c := start(t, testConfig(t))
		ctx := t.Context()
		for _, paused := range []bool{true, false} {
			if _, err := c.PutQueue(ctx, client.Queue{Name: "q", Paused: paused}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Schedule(ctx, client.Task{ID: "a", Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			wait := 10 * time.Second
			if paused {
				wait = 200 * time.Millisecond // time in which no task must come
			}
			tasks, err := c.Lease(ctx, "q", client.Demand{Wait: wait})
			if err != nil || len(tasks) == 0 != paused {
				t.Errorf("paused %v: %+v %v", paused, tasks, err)
			}
		}
	})
}
