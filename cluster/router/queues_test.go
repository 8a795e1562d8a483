package router

import (
	"errors"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
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
