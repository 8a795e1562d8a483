package check

import (
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// depositions holds, by shard, the instants at which a fault struck the shard's leader and a new term followed soon.
type depositions map[uint32][]history.Instant

func (x *Index) depositions(limits Limits) depositions {
	all := depositions{}
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		for _, shard := range f.Shards {
			if x.sawTerm(shard, f, limits) {
				all[shard] = append(all[shard], f.Struck)
			}
		}
	}
	return all
}

// between reports whether one of the shards lost its leader between two instants.
func (d depositions) between(shards []uint32, from, to history.Instant) bool {
	return slices.ContainsFunc(shards, func(shard uint32) bool {
		return slices.ContainsFunc(d[shard], func(at history.Instant) bool { return from <= at && at <= to })
	})
}
