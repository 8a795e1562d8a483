package store

import (
	"math"

	"github.com/belfryhq/belfry/fsm/store/internal/slab"
)

// dues counts tasks by when they come due, in short steps and in two longer ones, so that the tasks of a day are summed
// up in some hundred and fifty look-ups however many they are. Only steps with a task in them take memory. Shorter ones
// would be finer, and their counters would no longer lie in the processor's cache, which each schedule would pay for.
type dues struct {
	counts [len(dueSpans)]slab.Counter
}

// dueSpans are the lengths of the steps, in seconds. Each divides the next.
var dueSpans = [...]int64{4, 128, 4096}

// add counts a task that comes due at an instant in Unix milliseconds n more times, 1 or -1.
func (d *dues) add(dueMs int64, n int) {
	second := dueSecond(dueMs)
	for i, span := range dueSpans {
		d.counts[i].Add(uint32(second/span), n)
	}
}

// dueSecond is the second that an instant counts for: after the year 2106, all do for the same.
func dueSecond(ms int64) int64 { return min(max(ms/1000, 0), math.MaxUint32) }

// sum counts the tasks that come due from one instant to another, both rounded to the nearest short step.
func (d *dues) sum(fromMs, toMs int64) uint64 {
	span := dueSpans[0]
	nearest := func(ms int64) int64 { return (dueSecond(ms) + span/2) / span * span }
	return d.sumBy(len(dueSpans)-1, nearest(fromMs), nearest(toMs))
}

// sumBy counts the seconds [from, to) in steps of one length as far as whole ones fit, and the rest in shorter ones.
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
	return n + d.sumBy(level-1, from, first*span) + d.sumBy(level-1, end*span, to)
}
