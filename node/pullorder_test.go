package node_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// TestOverdueTasksComeInOrder checks that a consumer that takes one task after another gets overdue ones of all shards
// in the order of their due times, but for the first one or two of each shard.
func TestOverdueTasksComeInOrder(t *testing.T) {
	const tasks, shards, first = 30, 3, 2 * 3
	synctest.Test(t, func(t *testing.T) {
		c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Shards = shards })
		calls := c.Client(client.Config{Addrs: []string{c.URL(0)}, FixedAddrs: true})
		for i := range tasks {
			due := time.Now().Add(time.Duration(i-2*tasks) * time.Second)
			if _, err := calls.Schedule(t.Context(), client.Task{ID: fmt.Sprint(i), Queue: "q", FireAt: due}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		order, inversions, last := "", 0, time.Time{}
		for i := range tasks {
			leased, err := calls.Lease(t.Context(), "q", client.Demand{Max: 1})
			if err != nil || len(leased) != 1 {
				t.Fatalf("%d tasks, %v, after %s", len(leased), err, order)
			}
			if order += " " + leased[0].ID; i > first && leased[0].FireAt.Before(last) {
				inversions++
			}
			last = leased[0].FireAt
		}
		if inversions > 0 {
			t.Errorf("%d inversions after the first tasks of each shard:%s", inversions, order)
		}
	})
}
