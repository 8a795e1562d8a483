package node_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// TestReceiptsHoldAtAnyNode checks that the receipts of every node settle their leases at every other one, also after
// the node of the lease has died, and at no other queue.
func TestReceiptsHoldAtAnyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Shards = 3 })
		at := func(i int) *client.Client {
			return c.Client(client.Config{Addrs: []string{c.URL(i)}, FixedAddrs: true})
		}
		var receipts []string
		for i := range 3 {
			if _, err := at(i).Schedule(t.Context(), client.Task{ID: nodetest.Name(i), Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			tasks, err := at(i).Lease(t.Context(), "q", client.Demand{Wait: 10 * time.Second, Lease: time.Hour})
			if err != nil || len(tasks) != 1 {
				t.Fatalf("%v %v", tasks, err)
			}
			receipts = append(receipts, tasks[0].Receipt)
		}
		c.Kill(0)
		for i, receipt := range receipts {
			other := at(1 + (i+1)%2)
			settle := func(queue string, want error) {
				for _, r := range other.Settle(t.Context(), queue, client.Settlement{Ack: []string{receipt}}) {
					if !errors.Is(r.Err, want) {
						t.Errorf("the receipt of node %d, at queue %s: %v, want %v", i, queue, r.Err, want)
					}
				}
			}
			settle("mine", client.ErrNotFound)
			settle("q", nil)
		}
	})
}
