package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// backlogs are the waits of first attempts by shard, in the order of their arrival: how long each came after it was due
// and no call about it was out. What a new leader grants again waits in line with them.
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
			if a.Pulled || o == nil || a.Attempt > 1 || repeated(t.arrivals[:i], a) != nil {
				continue
			}
			all[t.shard] = append(all[t.shard], wait{a.At, a.At.Sub(max(a.Due, o.last))})
		}
	}
	for _, waits := range all {
		slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(a.at, b.at) })
	}
	return all
}

// around is how close together arrivals tell of each other's wait.
const around = time.Second

// before is how long the one that waited longest had waited, of those that came to the shard shortly before.
func (b backlogs) before(shard uint32, at history.Instant) (longest time.Duration) {
	waits := b[shard]
	byAt := func(w wait, at history.Instant) int { return cmp.Compare(w.at, at) }
	i, _ := slices.BinarySearchFunc(waits, at.Add(-around), byAt)
	for ; i < len(waits) && waits[i].at <= at; i++ {
		longest = max(longest, waits[i].long)
	}
	return longest
}
