package raftgroup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// watched runs a watch over a Raft that always reports that it leads. Each leadership's context is sent to the channel.
// A leadership ends with its context, or when the test sends to over.
func watched(t *testing.T) (w *watch, began chan context.Context, over chan struct{}) {
	down := make(chan struct{})
	w = newWatch(down, func() bool { return true })
	began, over = make(chan context.Context, 10_000), make(chan struct{})
	go w.listen()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(func(ctx context.Context) {
			began <- ctx
			select {
			case <-ctx.Done():
			case <-over:
			}
		})
	}()
	t.Cleanup(func() {
		close(down)
		<-ended
	})
	return w, began, over
}

// TestEveryNotice checks that the channel on which Raft's main loop blocks is always emptied, and that the last value
// counts.
func TestEveryNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began, _ := watched(t)
		w.notify <- true
		first := <-began
		for range 1000 {
			w.notify <- false // blocks for ever if the channel is not emptied
			w.notify <- true
		}
		synctest.Wait()
		var last context.Context
		for len(began) > 0 {
			last = <-began
		}
		if first.Err() == nil || last == nil || last.Err() != nil {
			t.Fatal("the first leadership goes on, or the last does not")
		}
		w.notify <- true // lost and won again
		if next := <-began; last.Err() == nil || next.Err() != nil {
			t.Error("a second win did not begin a new leadership")
		}
		w.notify <- false
		synctest.Wait()
		if len(began) > 0 {
			t.Error("a leadership began after the last was lost")
		}
	})
}

// TestLeadershipThatEndsItself checks that another leadership follows one that ends by itself, after a while, as long
// as Raft leads.
func TestLeadershipThatEndsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began, over := watched(t)
		w.notify <- true
		<-began
		over <- struct{}{}
		at := time.Now()
		second := <-began
		if took := time.Since(at); took != tryAgain {
			t.Errorf("the next began after %v", took)
		}
		over <- struct{}{}
		w.notify <- false
		<-time.After(2 * tryAgain)
		if second.Err() == nil || len(began) > 0 {
			t.Error("a leadership outlived itself, or began although Raft leads no more")
		}
	})
}
