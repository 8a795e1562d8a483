package check

import "time"

// Fences checks the part of invariant 7 that is seen at the receiver: each attempt of a task has a fence of its own,
// and of one occurrence a lower one after a higher comes only around a failover. (The attempt of an occurrence that was
// replaced while it ran may come after the first one of the next.) A lease is granted when it is asked for, so of
// leases a lower one that was asked for after a higher had come is wrong whatever has failed.
func Fences(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "7", Promise: "fences rise"}
	failovers, depositions := x.failovers(limits), x.depositions(limits)
	fell, across := 0, 0
	for _, t := range x.order {
		highest := map[string]*arrival{} // by webhook-id
		used := map[uint64]bool{}
		for _, a := range t.arrivals {
			before := highest[a.WebhookID]
			if before != nil && depositions.between(t.shard, before.At, a.At) {
				across++
			}
			switch {
			case a.Fence == 0:
				f.breach(a.At, t.id, "an attempt had no fence")
			case used[a.Fence]:
				f.breach(a.At, t.id, "fence %d came twice: one grant was started twice", a.Fence)
			case before != nil && a.Fence < before.Fence:
				fell++
				if !failovers.mayFall(t.shard, before, a) {
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
	f.Observe(across, "attempts of an occurrence that had another before a failover")
	f.figures("%d arrivals with a lower fence than one of the same occurrence before", fell)
	return f
}

// handedOn is how long a task that was leased for a consumer that had gone may be kept for the next one to ask: some
// 25 ms, and longer where timers are late.
const handedOn = 500 * time.Millisecond

// mayFall tells whether the lower fence of a may rightly come after the higher one of before.
func (o failovers) mayFall(shard uint32, before, a *arrival) bool {
	if a.Pulled {
		return a.Asked <= before.At.Add(handedOn)
	}
	return len(o.explain(shard, before, a)) > 0
}
