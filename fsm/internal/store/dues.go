package store

import (
	"math"

	"github.com/belfryhq/belfry/fsm/internal/slab"
)

// dues counts tasks by due time, in short steps and in two longer ones. The tasks of a day are therefore summed up in
// about a hundred and fifty look-ups, however many they are. Only steps with a task take memory. Shorter steps would
// be finer, but their counters would no longer fit the processor's cache, and each schedule would pay for that.
type dues struct {
	counts [len(dueSpans)]slab.Counter
}

// dueSpans are the lengths of the steps, in seconds. Each divides the next.
var dueSpans = [...]int64{4, 128, 4096}

// add adds n, 1 or -1, to the count of tasks that come due at dueMs, in Unix milliseconds.
func (d *dues) add(dueMs int64, n int) {
	second := dueSecond(dueMs)
	for i, span := range dueSpans {
		d.counts[i].Add(uint32(second/span), n)
	}
}

// dueSecond returns the Unix second that an instant counts for. All instants after the year 2106 count for the same
// one.
func dueSecond(ms int64) int64 { return min(max(ms/1000, 0), math.MaxUint32) }

// sum returns the number of tasks that come due in [fromMs, toMs), both rounded to the nearest short step.
func (d *dues) sum(fromMs, toMs int64) uint64 {
	span := dueSpans[0]
	nearest := func(ms int64) int64 { return (dueSecond(ms) + span/2) / span * span }
	return d.sumBy(len(dueSpans)-1, nearest(fromMs), nearest(toMs))
}

// sumBy counts the tasks of the seconds [from, to): in steps of this level as far as whole ones fit, the rest in
// shorter ones.
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
