package check

import (
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// window is the time in which a change of a shard's leader may make attempts come again.
type window struct {
	from, to history.Instant
	provoked bool // by a fault; else the cluster changed its leader by itself
}

// windows finds those of every shard, one for each term that began. A fault makes one at least for each shard that it
// took the leader of: the new term may have come and gone unseen.
func (x *Index) windows(limits Limits) map[uint32][]window {
	all := map[uint32][]window{}
	known := map[uint32]bool{}
	seen := map[*history.Fault][]uint32{}
	for _, t := range x.h.Terms {
		if !known[t.Shard] {
			known[t.Shard] = true
			continue // the term that was there
		}
		w := window{from: t.Before.Add(-limits.Surprise), to: t.At.Add(limits.Tail)}
		if f := x.causeOf(t, limits); f != nil {
			seen[f] = append(seen[f], t.Shard)
			w = window{from: f.Struck, to: max(healed(f), t.At).Add(limits.Tail), provoked: true}
		}
		all[t.Shard] = append(all[t.Shard], w)
	}
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		for _, shard := range f.Shards {
			if !slices.Contains(seen[f], shard) {
				all[shard] = append(all[shard], window{from: f.Struck, to: healed(f).Add(limits.Tail), provoked: true})
			}
		}
	}
	return all
}

// causeOf is the fault that may have caused a term, nil if there is none.
func (x *Index) causeOf(t history.Term, limits Limits) *history.Fault {
	for i := len(x.h.Faults) - 1; i >= 0; i-- {
		f := &x.h.Faults[i]
		if f.Struck <= t.At && t.At <= healed(f).Add(limits.Detect) {
			return f
		}
	}
	return nil
}

func unprovoked(windows map[uint32][]window) int {
	n := 0
	for _, ws := range windows {
		for _, w := range ws {
			if !w.provoked {
				n++
			}
		}
	}
	return n
}

// healed is when a fault was over, Forever if it never was.
func healed(f *history.Fault) history.Instant {
	if f.Mended == 0 {
		return history.Forever
	}
	return f.Mended
}
