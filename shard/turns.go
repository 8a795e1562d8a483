package shard

import "runtime"

// startsAtOnce is how many attempts begin before other goroutines have their turn.
const startsAtOnce = 16

// inTurns calls start for each of 0 to n-1, which begins a goroutine, and lets other goroutines run in between. An
// attempt costs a tenth of a millisecond of processor before it waits for its receiver, and goroutines run in the order
// in which they became ready: behind thousands of attempts that begin at one instant, Raft's heartbeats would come too
// late.
func inTurns(n int, start func(i int)) {
	for i := range n {
		start(i)
		if i%startsAtOnce == startsAtOnce-1 {
			runtime.Gosched()
		}
	}
}
