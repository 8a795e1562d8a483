// Package gc adapts Go's garbage collector to a process whose live heap is mostly tasks.
//
//	live heap            garbage allowed
//	up to 28 MiB         as much as is live: Go's default
//	28 MiB to 1.4 GiB    28 MiB
//	above                2 % of the live heap
//
// Go's collector lets as much garbage gather as there is live heap. Tasks lie in pages without pointers, which the
// collector does not scan: a collection stays cheap however many tasks there are, so the garbage may stay small.
//
// A busy process may gather as much as it allocates in a second, up to 64 MiB. A node with few tasks has a small live
// heap, and would otherwise collect several times a second.
//
// A process that becomes quiet also returns free memory to the system at once. Go does so a little at a time, and never
// returns all of it.
package gc

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	quietBytes    = 28 << 20               // most garbage of a quiet process
	busyBytes     = 64 << 20               // and of a busy one
	period        = 250 * time.Millisecond // between two looks at the heap
	usualPercent  = 100                    // of the live heap; Go's default
	lowestPercent = 2                      // with less, collections would follow each other without a pause
)

const (
	trimLooks = 20       // looks over which a process must be quiet
	trimQuiet = 16 << 20 // most bytes that a quiet process allocates over them
	trimBytes = 8 << 20  // fewest bytes worth returning
)

// Start adapts the collector of this process until stop is called, which restores its settings. If the environment
// variable GOGC is set, Start changes nothing.
func Start() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	ending, ended := make(chan struct{}), make(chan struct{})
	before := debug.SetGCPercent(usualPercent)
	go func() {
		defer close(ended)
		adapt(ending)
	}()
	return func() {
		close(ending)
		<-ended
		debug.SetGCPercent(before)
	}
}

func adapt(ending <-chan struct{}) {
	heap, percent, quiet := newHeapSamples(), usualPercent, trim{}
	heap.read()
	pace := allocating{mark: heap.allocated()}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ending:
			return
		case <-tick.C:
		}
		heap.read()
		if want := percentFor(heap.live(), pace.perSecond(heap.allocated())); differs(want, percent) {
			debug.SetGCPercent(want)
			percent = want
		}
		if quiet.due(heap.allocated(), heap.returnable()) {
			runtime.GC() // the second collection in a row frees what sync.Pool keeps
			debug.FreeOSMemory()
		}
	}
}

// heapSamples holds the runtime's figures about its heap.
type heapSamples []metrics.Sample

func newHeapSamples() heapSamples {
	return heapSamples{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
}

func (h heapSamples) read() { metrics.Read(h) }

func (h heapSamples) live() uint64      { return h[0].Value.Uint64() }
func (h heapSamples) allocated() uint64 { return h[1].Value.Uint64() }

// returnable returns the bytes of garbage and of free memory.
func (h heapSamples) returnable() uint64 {
	return max(h[2].Value.Uint64(), h.live()) - h.live() + h[3].Value.Uint64()
}

// trim decides when memory is returned to the system.
type trim struct {
	looks int
	mark  uint64 // bytes allocated when looks was 0
}

// due reports whether to return memory now. It is called at each look, with the bytes allocated since the start and
// those that can be returned.
func (t *trim) due(allocated, returnable uint64) bool {
	if t.looks++; t.looks < trimLooks {
		return false
	}
	quiet := allocated-t.mark <= trimQuiet
	*t = trim{mark: allocated}
	return quiet && returnable >= trimBytes
}

// allocating follows the bytes that the process allocates in a second.
type allocating struct {
	mark uint64 // bytes allocated at the last look
	rate uint64 // of late: it rises at once, and falls by an eighth a look
}

// perSecond returns the rate. It is called at each look, with the bytes allocated since the start.
func (a *allocating) perSecond(allocated uint64) uint64 {
	now := (allocated - a.mark) * uint64(time.Second/period)
	a.mark, a.rate = allocated, max(now, a.rate-a.rate/8)
	return a.rate
}

// percentFor returns the garbage allowed, in percent of the live heap. perSecond are the bytes allocated in a second.
func percentFor(live, perSecond uint64) int {
	if live == 0 {
		return usualPercent
	}
	garbage := max(min(live, quietBytes), min(perSecond, busyBytes))
	return int(max(lowestPercent, garbage*100/live))
}

// differs reports whether a change of the percentage is worth making: each one stops the world for a moment.
func differs(want, current int) bool {
	return want*10 < current*9 || want*10 > current*11
}
