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
			p.ArrivedHere(1, []uint64{late + 1}) // the leader asks again about the leases of a node that did not answer
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

// TestReclaimedLeaseIsRefused checks that a node refuses a lease that a leader has given back, also after that leader
// or the next one has asked about other leases. The leader that granted the lease may have been stopped, and hands the
// task over once it is woken.
func TestReclaimedLeaseIsRefused(t *testing.T) {
	const came, lost = 5, 6
	full := make([]uint64, arrivalsKept)
	for i := range full {
		full[i] = uint64(100 + i)
	}
	for name, later := range map[string][][]uint64{
		"no other question":                {},
		"repeated for a silent node":       {{7}, {7}},
		"next leader asks":                 {{came, 7, 20}},
		"next leader's leases all arrived": {{came}},
		"as many leases as are remembered": {full},
		"more leases than are remembered":  {full, {10_000}, {10_001}},
	} {
		t.Run(name, func(t *testing.T) {
			var a arrivals
			a.take([]*fsmpb.Task{{Fence: came}})
			if got := a.ask([]uint64{came, lost, 7}); !slices.Equal(got, []uint64{came}) {
				t.Fatalf("arrived: %v", got)
			}
			for _, fences := range later {
				a.ask(fences)
			}
			const granted = 20_000 // by the next leader
			got := a.take([]*fsmpb.Task{{Fence: lost}, {Fence: granted}})
			if len(got) != 1 || got[0].Fence != granted {
				t.Errorf("took %v", got)
			}
			if got := a.ask([]uint64{came, lost}); !slices.Equal(got, []uint64{came}) {
				t.Errorf("arrived in the end: %v", got)
			}
			if len(a.missed) > arrivalsKept {
				t.Errorf("%d leases are remembered as given back", len(a.missed))
			}
		})
	}
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

// asked are the nodes of a world that a leader asks for arrivals.
type asked struct{ place }

func (asked) Arrived(ctx context.Context, node string, _ uint32, fences []uint64) (desk.Arrivals, error) {
	switch node {
	case "good":
		return desk.Arrivals{Holder: 2, Fences: fences[:1]}, nil
	case "slow":
		<-ctx.Done()
		return desk.Arrivals{}, context.Cause(ctx)
	}
	return desk.Arrivals{}, errors.New("no way to node " + node)
}

// TestArrivedAsksAllNodes: Arrived leaves out nodes that fail or are slow.
func TestArrivedAsksAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{state: &clusterpb.ControlState{}}
		for _, id := range []string{"self", "good", "down", "slow"} {
			w.state.Nodes = append(w.state.Nodes, &clusterpb.Node{Id: id})
		}
		p := New(Config{Self: "self", Control: w, Nodes: asked{}})
		defer p.Close()
		begin := time.Now()
		got := p.Arrived(t.Context(), 1, []uint64{5, 6})
		want := []desk.Arrivals{{Holder: p.holder}, {Holder: 2, Fences: []uint64{5}}}
		if fmt.Sprint(got) != fmt.Sprint(want) || time.Since(begin) != arrivedWithin {
			t.Errorf("%v after %v, not %v", got, time.Since(begin), want)
		}
	})
}
