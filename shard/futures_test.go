package shard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestStopsWhileItIsRead: nobody waits for an answer that Raft has forgotten. The bubble does not end with one who does.
func TestStopsWhileItIsRead(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := newReplicas(t, 3, nil).startAll()
			defer c.close()
			leader := c.leader()
			shard := leader.Shard
			leader.must(t, schedule("a", time.Now().Add(time.Hour)))
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for err := error(nil); err == nil; {
						_, err = shard.Get(t.Context(), "", "a", false)
					}
				})
			}
			c.kill(leader.cfg.NodeID)
			readers.Wait()
		})
	}
}

func TestFutures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFutures()
		answer, broken := make(chan error), errors.New("broken")
		ask := func() raft.Future { return pending{answer} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.await(ctx, ask); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller who goes: %v", err)
		}
		if f.bar(time.Second) {
			t.Error("what was asked has not been answered")
		}
		if err := f.await(t.Context(), ask); !errors.Is(err, raft.ErrRaftShutdown) {
			t.Errorf("asked when it was barred: %v", err)
		}
		answer <- broken
		<-f.none
	})
}

// pending is a future that is answered when the test says so.
type pending struct{ answer chan error }

func (p pending) Error() error { return <-p.answer }
