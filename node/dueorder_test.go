package node_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/node"
	"github.com/belfryhq/belfry/node/nodetest"
)

// TestListsInDueOrder lists the tasks, dead letters and schedules of three shards by their next instants, and reads
// pages while tasks move, are cancelled and come due.
func TestListsInDueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Shards = 3 })
		calls := c.Client(client.Config{Addrs: []string{c.URL(0)}, FixedAddrs: true})
		ctx, began := t.Context(), time.Now()
		must := func(err error) {
			t.Helper()
			assert.NoError(t, err)
		}
		schedule := func(id string, due time.Duration, attempts int) {
			t.Helper()
			_, err := calls.Schedule(ctx, client.Task{
				ID: id, Queue: "q", FireAt: began.Add(due), Retry: &client.Retry{MaxAttempts: attempts},
			})
			must(err)
		}
		for i, id := range []string{"dead-2", "dead-0", "dead-1"} {
			schedule(id, time.Duration(i-10)*time.Second, 1)
		}
		schedule("retry", -time.Second, 2)
		var leased []client.Leased
		for len(leased) < 4 {
			more, err := calls.Lease(ctx, "q", client.Demand{Max: 4, Wait: time.Second})
			must(err)
			leased = append(leased, more...)
		}
		slices.SortFunc(leased, func(a, b client.Leased) int { return cmp.Compare(a.ID, b.ID) })
		delay := 90 * time.Minute
		for _, l := range leased {
			time.Sleep(time.Second) // of the test's clock: the next one dies later
			nack := client.Settlement{Nack: []client.Nack{{Receipt: l.Receipt, Delay: &delay}}}
			must(calls.Settle(ctx, "q", nack)[0].Err)
		}
		schedule("late", -time.Minute, 1)
		var want []string
		for i := range 40 {
			schedule(fmt.Sprintf("wait-%02d", i), time.Hour+time.Duration(i)*time.Minute, 1)
			want = append(want, fmt.Sprintf("wait-%02d", i))
		}
		want = slices.Concat([]string{"late"}, want[:31], []string{"retry"}, want[31:])

		list := func(filter client.Filter, turn func()) (ids []string) {
			t.Helper()
			filter.Order = client.ByDue
			for page, err := range calls.Pages(ctx, filter) {
				must(err)
				for _, listed := range page {
					ids = append(ids, listed.ID)
				}
				turn()
			}
			return ids
		}
		for _, size := range []int{1, 7, 1000} {
			got := list(client.Filter{PageSize: size}, func() {})
			assert.EqualSlices(t, got, want, "pages of %d", size)
		}
		got := list(client.Filter{States: []client.State{client.StateDead}}, func() {})
		assert.EqualSlices(t, got, []string{"dead-0", "dead-1", "dead-2"}, "dead letters")
		between := client.Filter{DueAfter: began.Add(62 * time.Minute), DueBefore: began.Add(65 * time.Minute)}
		got = list(between, func() {})
		assert.EqualSlices(t, got, want[3:6], "between two instants")
		turns := 0
		changing := list(client.Filter{PageSize: 4}, func() {
			if turns++; turns <= 10 {
				schedule(fmt.Sprintf("wait-%02d", turns), time.Duration(4-turns)*time.Hour, 1)
				_, err := calls.Cancel(ctx, fmt.Sprintf("wait-%02d", 10+turns))
				must(err)
				time.Sleep(time.Second)
			}
		})
		seen := map[string]int{}
		for _, id := range changing {
			seen[id]++
		}
		for i := 21; i < 40; i++ {
			if id := fmt.Sprintf("wait-%02d", i); seen[id] != 1 {
				t.Errorf("%s waits unchanged and was listed %d times: %v", id, seen[id], changing)
			}
		}

		for id, hours := range map[string]time.Duration{"b": 2, "c": 3, "a": 1, "none": 1} {
			s := client.Schedule{ID: id, Repeat: client.Repeat{Every: hours * time.Hour}, Paused: id == "none"}
			_, err := calls.PutSchedule(ctx, s)
			must(err)
		}
		time.Sleep(time.Second) // until the leaders have computed the next instants
		var runs []string
		for s, err := range calls.Schedules(ctx, client.ScheduleFilter{Order: client.ByDue, PageSize: 1}) {
			must(err)
			runs = append(runs, s.ID)
		}
		assert.EqualSlices(t, runs, []string{"a", "b", "c", "none"}, "schedules")
	})
}

// TestOverdueTasksComeInOrder checks that a consumer that takes one task after another gets overdue ones of all shards
// in the order of their due times, once each shard has answered and has given one or two more.
func TestOverdueTasksComeInOrder(t *testing.T) {
	const tasks, shards = 30, 3
	synctest.Test(t, func(t *testing.T) {
		c := nodetest.Start(t, 3, func(_ int, cfg *node.Config) { cfg.Shards = shards })
		calls := c.Client(client.Config{Addrs: []string{c.URL(0)}, FixedAddrs: true})
		for i := range tasks {
			due := time.Now().Add(time.Duration(i-2*tasks) * time.Second)
			_, err := calls.Schedule(t.Context(), client.Task{ID: fmt.Sprint(i), Queue: "q", FireAt: due})
			assert.NoError(t, err)
		}
		time.Sleep(time.Second)
		order, inversions, last := "", 0, time.Time{}
		heard, first := map[uint32]bool{}, 0
		for i := range tasks {
			leased, err := calls.Lease(t.Context(), "q", client.Demand{Max: 1})
			if err != nil || len(leased) != 1 {
				t.Fatalf("%d tasks, %v, after %s", len(leased), err, order)
			}
			if !heard[leased[0].Shard] {
				heard[leased[0].Shard], first = true, i+shards
			}
			if order += " " + leased[0].ID; i > first && leased[0].FireAt.Before(last) {
				inversions++
			}
			last = leased[0].FireAt
		}
		if inversions > 0 {
			t.Errorf("%d inversions after the first tasks of each shard:%s", inversions, order)
		}
		if len(heard) < shards {
			t.Errorf("%d shards had tasks", len(heard))
		}
	})
}

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
					assert.ErrorIs(t, r.Err, want, "the receipt of node %d, at queue %s", i, queue)
				}
			}
			settle("mine", client.ErrNotFound)
			settle("q", nil)
		}
	})
}
