package fsm

import (
	"math"

	"github.com/belfryhq/belfry/fsm/slab"
)

// dues counts tasks by when they come due: to the second, and in two coarser steps, so that the tasks of a day are
// summed up in a few hundred look-ups however many they are. Only steps with a task in them take memory.
type dues struct {
	counts [len(dueSpans)]slab.Counter
}

// dueSpans are the lengths of the steps, in seconds. Each divides the next.
var dueSpans = [...]int64{1, 32, 1024}

// add counts a task that comes due at an instant in Unix milliseconds n more times, 1 or -1.
func (d *dues) add(dueMs int64, n int) {
	second := min(max(dueMs/1000, 0), math.MaxUint32) // until the year 2106, then all alike
	for i, span := range dueSpans {
		d.counts[i].Add(uint32(second/span), n)
	}
}

// sum counts the tasks that come due in the seconds [from, to).
func (d *dues) sum(from, to int64) uint64 {
	return d.sumBy(len(dueSpans)-1, max(from, 0), min(to, math.MaxUint32))
}

// sumBy counts in steps of one length as far as whole ones fit, and the rest in shorter ones.
func (d *dues) sumBy(level int, from, to int64) uint64 {
	if from >= to {
		return 0
	}
	span := dueSpans[level]
	first, end := (from+span-1)/span, to/span
	if first >= end {
		return d.sumBy(level-1, from, to)
	}
	var n uint64
	for step := first; step < end; step++ {
		n += uint64(d.counts[level].Count(uint32(step)))
	}
	if level == 0 {
		return n
	}
	return n + d.sumBy(level-1, from, first*span) + d.sumBy(level-1, end*span, to)
}
