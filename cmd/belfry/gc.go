package main

import (
	"context"
	"os"
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

// boundGarbage adapts the collector to the live heap until the context ends. GOGC, if it is set, wins.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	current := gcHighest
	tick := time.NewTicker(gcLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		if want := gcPercent(sample[0].Value.Uint64()); differs(want, current) {
			debug.SetGCPercent(want)
			current = want
		}
	}
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
