package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// backlogs holds, by shard, how long first attempts waited, in the order of their arrival. A wait counts from the due
// time, or from the last answer about the payload's operation if that is later. Attempts that a new leader grants again
// wait in the same queue.
type backlogs map[uint32][]wait

type wait struct {
	at   history.Instant
	long time.Duration
}

func (x *Index) backlogs() backlogs {
	all := backlogs{}
	for _, t := range x.order {
		for i, a := range t.arrivals {
			o := x.writes[a.Wrote]
			if a.Pulled || o == nil || a.Attempt > 1 || seenBefore(t.arrivals[:i], a) {
				continue
			}
			for _, shard := range t.known() {
				all[shard] = append(all[shard], wait{a.At, a.At.Sub(max(a.Due, o.last))})
			}
		}
	}
	for _, waits := range all {
		slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.at, b.at) })
	}
	return all
}

// around is the longest time between two arrivals whose waits are taken as alike.
const around = time.Second

// before returns the longest wait of the first attempts that arrived at one of the shards within around before an
// instant.
func (b backlogs) before(shards []uint32, at history.Instant) (longest time.Duration) {
	for _, shard := range shards {
		longest = max(longest, b.beforeAt(shard, at))
	}
	return longest
}

func (b backlogs) beforeAt(shard uint32, at history.Instant) (longest time.Duration) {
	waits := b[shard]
	byAt := func(w wait, at history.Instant) int { return cmp.Compare(w.at, at) }
	i, _ := slices.BinarySearchFunc(waits, at.Add(-around), byAt)
	for ; i < len(waits) && waits[i].at <= at; i++ {
		longest = max(longest, waits[i].long)
	}
	return longest
}
