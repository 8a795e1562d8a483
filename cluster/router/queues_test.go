package router

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard"
)

func TestCountsAreSummedOverShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.leader[3] = "b" // the router has to find this out
		r := w.at("d")
		w.leader[3] = "c"
		all, err := r.Queues(t.Context(), &clusterpb.QueuesCall{All: true})
		want := []*fsmpb.QueueCounts{
			{Queue: "all", Ready: 4, Dead: 8, OldestOverdueMs: 96},
			{Queue: "of-1", Due_1H: 1}, {Queue: "of-2", Due_1H: 2}, {Queue: "of-3", Due_1H: 3}, {Queue: "of-4", Due_1H: 4},
		}
		if err != nil || len(all) != len(want) {
			t.Fatalf("%v, %v", all, err)
		}
		for i := range want {
			if !proto.Equal(all[i], want[i]) {
				t.Errorf("%v, not %v", all[i], want[i])
			}
		}
	})
}

func TestNamespaceIsSummedOverShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.leader[3] = "b"
		use, err := w.at("d").NamespaceUse(t.Context(), "n")
		if want := (task.NamespaceUse{Namespace: "n", Pending: 10, Dead: 4, Bytes: 400, Queues: 4}); err != nil || use != want {
			t.Errorf("%v, %v, want %v", use, err, want)
		}
	})
}

// A shard that does not answer makes Queues fail: a sum would be too small.
func TestCountsOfAShardAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		w.leader[2] = ""
		if sums, err := r.Queues(t.Context(), &clusterpb.QueuesCall{Queue: "all"}); !errors.Is(err, task.ErrNotProposed) {
			t.Errorf("%v, %v", sums, err)
		}
	})
}

func TestLoansComeFromTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		owner := shardOf(ownerSlot("", "q"))
		if owner != shardOf(ownerSlot(task.DefaultNamespace, "q")) {
			t.Error("the default namespace has two owners")
		}
		w.leader[owner] = "b"
		for range 3 {
			loan, err := r.Borrow(t.Context(), shard.Borrow{Queue: "q", Borrow: lend.Borrow{Want: 3}})
			if err != nil || loan.Permits != 3 {
				t.Fatalf("%v, %v", loan, err)
			}
		}
		for _, line := range w.log {
			if line != "b lends q" {
				t.Error(line)
			}
		}
		if len(w.log) != 3 {
			t.Error(w.log)
		}
	})
}

// TestGroupsAreAskedOfTheOwner checks that an ask goes to the owner of the queue with the epoch of its slot, and that a
// look needs the answers of all shards.
func TestGroupsAreAskedOfTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		owner := shardOf(ownerSlot("", "q"))
		w.leader[owner] = "b"
		if _, err := r.AskGroups(t.Context(), shard.GroupsAsk{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		if len(w.log) != 1 || w.log[0] != "b gives groups of q" {
			t.Error(w.log)
		}
		for _, id := range r.shards() {
			w.leader[id] = "b"
		}
		standings, err := r.LookGroups(t.Context(), shard.GroupsLook{Queue: "q", Groups: []string{"g", "h"}})
		if err != nil || len(standings) != len(r.shards()) {
			t.Fatalf("%+v, %v", standings, err)
		}
		for i, s := range standings {
			if s.Shard != r.shards()[i] || s.Done != 2 {
				t.Errorf("shard %d: %+v", r.shards()[i], s)
			}
		}
	})
}

func TestBorrowerIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.leader = map[uint32]string{}
		began := time.Now()
		if _, err := w.at("d").Borrow(t.Context(), shard.Borrow{Queue: "q"}); !errors.Is(err, task.ErrNotProposed) {
			t.Error(err)
		}
		if took := time.Since(began); took > lendPatience+time.Second {
			t.Errorf("it took %v to say so", took)
		}
	})
}
