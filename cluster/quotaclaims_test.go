package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/internal/clustertest"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/quota"
)

// TestRepeatedCallsNeedNoRoom checks that a repeat of a call gets the first answer although its namespace is full, on
// a pending task and on one that is done.
func TestRepeatedCallsNeedNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 3 })
		n := c.Node(0)
		keyed := func(id string, call uint64) *fsmpb.Command {
			cmd := scheduleIn("town", id, "q", time.Hour)
			cmd.Key = &fsmpb.Key{Hash: call, Call: call}
			return cmd
		}
		mustRepeatFirst := func(cmd *fsmpb.Command) {
			t.Helper()
			for i, at := range c.Nodes() {
				if r := at.Do(t.Context(), []*fsmpb.Command{cmd})[0]; r.Err != nil || !r.Result.Repeated {
					t.Errorf("node %d: %v, %v", i, r.Result, r.Err)
				}
			}
		}
		limits := quota.Limits{MaxPending: 2, MaxBytes: 100_000}
		putNamespace(t, n, "town", limits)
		c.Until("all nodes know the limits", func() error { return knowLimits(c, "town", limits) })
		pending, done := keyed("pending", 1), keyed("done", 2)
		mustDo(t, n, pending, done, inTown("done", &fsmpb.Command{Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}))
		patch := inTown("pending", &fsmpb.Command{Key: &fsmpb.Key{Hash: 3, Call: 3}, Op: &fsmpb.Command_Patch{
			Patch: &fsmpb.Patch{Clear: []string{"payload"}, Set: &fsmpb.Spec{Payload: make([]byte, 60_000)}},
		}})
		mustDo(t, n, patch)
		mustRepeatFirst(patch) // its bytes count once
		refill(t, c, "town", "more", 1)
		mustBeOver(t, n, quota.MaxPending, scheduleIn("town", "over", "q", time.Hour))
		mustRepeatFirst(pending)
		mustRepeatFirst(done)
		mustRepeatFirst(patch)
		mustBeOver(t, n, quota.MaxPending, keyed("done", 4))
	})
}

// hurried returns a context that is canceled after so many turns of other goroutines. In a bubble a call takes no time,
// and a timeout would not end in the middle of it.
func hurried(ctx context.Context, turns int) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for range turns {
			runtime.Gosched()
		}
		cancel()
	}()
	return ctx
}

// TestLeftCallsCount checks that max_pending is exact although the callers leave while their tasks are being made.
func TestLeftCallsCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, callers, calls = 200, 16, 40
		c := clustertest.New(t, 3, func(_ int, cfg *cluster.Config) { cfg.Shards = 1 })
		limits := quota.Limits{MaxPending: limit}
		putNamespace(t, c.Node(0), "town", limits)
		c.Until("all nodes know the limits", func() error { return knowLimits(c, "town", limits) })
		var all sync.WaitGroup
		var left atomic.Int64
		for i := range callers {
			all.Go(func() {
				for j := range calls {
					cmd := scheduleIn("town", fmt.Sprint(i, "-", j), "q", time.Hour)
					r := c.Node(i%3).Do(hurried(t.Context(), rand.IntN(60)), []*fsmpb.Command{cmd})[0]
					if errors.Is(r.Err, context.Canceled) {
						left.Add(1)
					}
				}
			})
		}
		all.Wait()
		if left.Load() == 0 {
			t.Error("no caller has left")
		}
		tries := 0
		c.Until("the limit is reached", func() error {
			tries++
			fillQuota(t, c, "town", fmt.Sprint("rest-", tries, "-"), 30, quota.MaxPending)
			use, err := c.Node(0).NamespaceUse(t.Context(), "town")
			if err == nil && use.Pending > limit {
				t.Fatalf("%+v", use)
			}
			if err != nil || use.Pending < limit {
				return fmt.Errorf("%+v, %w", use, err)
			}
			return nil
		})
	})
}
