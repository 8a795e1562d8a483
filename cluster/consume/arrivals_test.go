package consume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// TestArrived: a node knows which leases reached it, and does not take tasks that a leader has given to others
// meanwhile.
func TestArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.lead(1, "b", true)
		w.fill(1, time.Now(), 0)
		came, err := w.lease(t.Context(), "a", 1)
		if err != nil || len(came) != 1 {
			t.Fatalf("%v, %v", came, err)
		}
		p := w.nodes["a"]
		// The next task is in flight when a leader asks for it.
		var late uint64
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now().Add(100 * time.Millisecond).Truncate(time.Millisecond)
		w.must(due("s1-late", begin, 10))
		time.AfterFunc(time.Until(begin)+onTheWire/2, func() {
			task, err := w.shards[1].Get(t.Context(), "", "s1-late", false)
			if err != nil {
				t.Error(err)
				return
			}
			late = task.Fence
			got := p.ArrivedHere(1, []uint64{came[0].Fence, late})
			if got.Holder != p.holder || !slices.Equal(got.Fences, []uint64{came[0].Fence}) {
				t.Errorf("%+v", got)
			}
		})
		if tasks, err := w.lease(ctx, "a", 1); err != nil || len(tasks) > 0 {
			t.Errorf("taken after all: %v, %v", tasks, err)
		}
		if got := p.ArrivedHere(1, []uint64{late}); len(got.Fences) > 0 {
			t.Errorf("%+v", got)
		}
		w.must(due("s1-next", time.Now(), 10))
		if tasks, err := w.lease(t.Context(), "a", 1); err != nil || len(tasks) != 1 || tasks[0].Id != "s1-next" {
			t.Errorf("the next one: %v, %v", tasks, err)
		}
	})
}

// TestArrivalsAreBounded: a node remembers the last arrivalsKept fences.
func TestArrivalsAreBounded(t *testing.T) {
	var a arrivals
	for fence := uint64(1); fence <= arrivalsKept+100; fence++ {
		a.take([]*fsmpb.Task{{Fence: fence}})
	}
	slices.Sort(a.fences)
	if len(a.fences) != arrivalsKept || a.fences[0] != 101 {
		t.Errorf("%d kept, from %d on", len(a.fences), a.fences[0])
	}
}

// TestArrivedAsksAllNodes: Arrived leaves out nodes that fail or are slow.
func TestArrivedAsksAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &clusterpb.ControlState{}
		for _, id := range []string{"self", "good", "down", "slow"} {
			state.Nodes = append(state.Nodes, &clusterpb.Node{Id: id})
		}
		p := New(Config{
			Self: "self", State: func() *clusterpb.ControlState { return state },
			Arrived: func(ctx context.Context, node string, shard uint32, fences []uint64) (desk.Arrivals, error) {
				switch node {
				case "good":
					return desk.Arrivals{Holder: 2, Fences: fences[:1]}, nil
				case "slow":
					<-ctx.Done()
					return desk.Arrivals{}, context.Cause(ctx)
				}
				return desk.Arrivals{}, errors.New("no way to node " + node)
			},
		})
		defer p.Close()
		begin := time.Now()
		got := p.Arrived(t.Context(), 1, []uint64{5, 6})
		want := []desk.Arrivals{{Holder: p.holder}, {Holder: 2, Fences: []uint64{5}}}
		if fmt.Sprint(got) != fmt.Sprint(want) || time.Since(begin) != arrivedWithin {
			t.Errorf("%v after %v, not %v", got, time.Since(begin), want)
		}
	})
}
