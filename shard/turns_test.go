package shard

import (
	"runtime"
	"sync"
	"testing"
)

// While thousands of goroutines are begun, another one has its turn again and again, on one processor too.
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
