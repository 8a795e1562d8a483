package shard

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// TestOthersHaveTheirTurnBetweenStarts checks that another goroutine runs again and again while thousands are started,
// on one processor too.
func TestOthersHaveTheirTurnBetweenStarts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const starts = 10_000
	var mu sync.Mutex
	begun, seen, most := 0, 0, 0
	count := func(look bool) bool {
		mu.Lock()
		defer mu.Unlock()
		if look {
			most, seen = max(most, begun-seen), begun
		} else {
			begun++
		}
		return begun == starts
	}
	var all sync.WaitGroup
	all.Go(func() {
		for !count(true) {
			runtime.Gosched()
		}
	})
	inTurns(starts, func(int) { all.Go(func() { count(false) }) })
	all.Wait()
	if most > 64*startsAtOnce {
		t.Errorf("%d starts in a row had no other goroutine between them", most)
	}
	t.Logf("at most %d starts between two turns of another goroutine", most)
}

// TestRequestsKeepTheOrder checks that requests start in the order of their first grants, and that grants of a batching
// lane share requests.
func TestRequestsKeepTheOrder(t *testing.T) {
	d := newDecided(&fsmpb.QueuePolicy{Queue: "batched", BatchMax: 2})
	f := &firing{shard: &Shard{cfg: Config{Policies: d}}}
	var due []task.Grant
	for i, lane := range []string{"c", "single", "a", "c", "b", "c", "single", "a"} {
		g := task.Grant{Fence: uint64(i), Lane: task.Lane{Queue: "batched", Destination: lane}}
		if lane == "single" {
			g.Lane.Queue = lane
		}
		due = append(due, g)
	}
	var got [][]uint64
	for _, request := range f.requestsOf(due) {
		var fences []uint64
		for _, g := range request {
			fences = append(fences, g.Fence)
		}
		got = append(got, fences)
	}
	want := [][]uint64{{0, 3}, {1}, {2, 7}, {4}, {5}, {6}}
	if !slices.EqualFunc(got, want, slices.Equal[[]uint64]) {
		t.Errorf("requests of %v, want %v", got, want)
	}
}

func TestBatchesOf(t *testing.T) {
	of := func(url string, bytes int) begun {
		return begun{batched: true, Attempt: task.Attempt{Task: &fsmpb.Task{Spec: &fsmpb.Spec{
			Target: &fsmpb.Target{Url: url}, Payload: make([]byte, bytes),
		}}}}
	}
	alone := of("d", 0) // as a GET
	alone.batched = false
	got := batchesOf([]begun{
		of("a", 1), of("b", 1), of("a", 600<<10), of("a", 500<<10), of("b", 2), of("a", 2), of("c", 2<<20), alone, alone,
	})
	var sizes []int
	for _, batch := range got {
		sizes = append(sizes, len(batch))
	}
	if !slices.Equal(sizes, []int{3, 2, 1, 1, 1, 1}) {
		t.Errorf("batches of %v", sizes)
	}
}
