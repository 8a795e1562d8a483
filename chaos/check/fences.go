package check

import "github.com/belfryhq/belfry/chaos/history"

// Fences checks the part of invariant 7 that is seen at the receiver: each attempt of a task has a fence of its own,
// and of one occurrence a lower one after a higher comes only around a failover. (The attempt of an occurrence that was
// replaced while it ran may come after the first one of the next.)
func Fences(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "7", Promise: "fences rise"}
	failovers := x.failovers(limits)
	fell := 0
	for _, t := range x.order {
		highest := map[string]*history.Arrival{} // by webhook-id
		used := map[uint64]bool{}
		for _, a := range t.arrivals {
			before := highest[a.WebhookID]
			switch {
			case a.Fence == 0:
				f.breach(a.At, t.id, "an attempt had no fence")
			case used[a.Fence]:
				f.breach(a.At, t.id, "fence %d came twice: one grant was started twice", a.Fence)
			case before != nil && a.Fence < before.Fence:
				fell++
				if len(failovers.explain(t.shard, before, a)) == 0 {
					f.breach(a.At, t.id, "fence %d came %v after the higher %d, without a failover",
						a.Fence, a.At.Sub(before.At), before.Fence)
				}
			}
			used[a.Fence] = true
			if before == nil || a.Fence > before.Fence {
				highest[a.WebhookID] = a
			}
		}
	}
	f.figures("%d arrivals with a lower fence than one of the same occurrence before", fell)
	return f
}
