package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go's collector lets as much garbage gather as there is live heap. A node's live heap is mostly tasks, in pages
// without pointers, that the collector need not look into: so a collection stays cheap however many tasks there are,
// and the garbage may stay small. From 28 MiB of live heap on, it is bounded instead of being doubled.
const (
	garbageBytes = 28 << 20
	gcLook       = 250 * time.Millisecond
	gcHighest    = 100 // percent of the live heap; Go's default
	gcLowest     = 2   // below it, collections would follow each other without a pause
)

// A node that was busy and is not any more gives back to the system what the collector would find, and what it has
// found and kept: Go itself does so a little at a time, and never with all of it.
const (
	trimLooks = 20       // it is looked at so often before a node counts as quiet,
	trimQuiet = 16 << 20 // and no more bytes were allocated meanwhile,
	trimBytes = 8 << 20  // and so many at least can be given back
)

// boundGarbage adapts the collector to the live heap until the context ends. GOGC, if it is set, wins.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	heap, percent, quiet := newHeapSamples(), gcHighest, trim{}
	tick := time.NewTicker(gcLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		heap.read()
		if want := gcPercent(heap.live()); differs(want, percent) {
			debug.SetGCPercent(want)
			percent = want
		}
		if quiet.due(heap.allocated(), heap.toGiveBack()) {
			runtime.GC() // what pools keep for reuse goes with the second collection in which nobody has asked for it
			debug.FreeOSMemory()
		}
	}
}

// heapSamples are what the runtime says of its heap.
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

// toGiveBack is the garbage, and what is free already.
func (h heapSamples) toGiveBack() uint64 {
	return max(h[2].Value.Uint64(), h.live()) - h.live() + h[3].Value.Uint64()
}

// trim says when to give memory back.
type trim struct {
	looks int
	mark  uint64 // bytes allocated when looks was 0
}

// due is asked at each look, with the bytes allocated since the start and those to be given back.
func (t *trim) due(allocated, toGiveBack uint64) bool {
	if t.looks++; t.looks < trimLooks {
		return false
	}
	quiet := allocated-t.mark <= trimQuiet
	*t = trim{mark: allocated}
	return quiet && toGiveBack >= trimBytes
}

// gcPercent is the share of the live heap that comes to the garbage allowed.
func gcPercent(live uint64) int {
	if live == 0 {
		return gcHighest
	}
	return int(min(gcHighest, max(gcLowest, garbageBytes*100/live)))
}

// differs passes over small changes: each one stops the world for a moment.
func differs(want, current int) bool {
	return want*10 < current*9 || want*10 > current*11
}
