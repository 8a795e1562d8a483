package check

import "time"

// Fences checks the part of invariant 7 that receivers and consumers can see: each attempt of a task has a fence of its
// own, and fences rise within an occurrence.
//
//   - A lower fence of a pushed occurrence may arrive after a higher one only around a failover.
//   - A lease is granted when a consumer asks for it. So a lease with a lower fence is wrong, whatever failed, if its
//     consumer asked for it after the higher fence arrived.
//   - Different occurrences are not compared: a replaced occurrence's last attempt may arrive after the next one's
//     first.
func Fences(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "7", Promise: "fences rise"}
	failovers, depositions := x.failovers(limits), x.depositions(limits)
	fell, across := 0, 0
	for _, t := range x.attempted() {
		highest := map[string]*arrival{} // by webhook-id
		used := map[uint64]bool{}
		for _, a := range t.arrivals {
			before := highest[a.WebhookID]
			if before != nil && depositions.between(t.known(), before.At, a.At) {
				across++
			}
			switch {
			case a.Fence == 0:
				f.breach(a.At, t.id, "an attempt had no fence")
			case used[a.Fence]:
				f.breach(a.At, t.id, "fence %d came twice: one grant was started twice", a.Fence)
			case before != nil && a.Fence < before.Fence:
				fell++
				if !failovers.mayFall(t, before, a) {
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

// handedOn bounds how long the service keeps a task that it leased for a departed consumer, until the next consumer
// asks: about 25 ms, and longer where timers are late.
const handedOn = 500 * time.Millisecond

// mayFall reports whether a, with the lower fence, may rightly arrive after before, with the higher one.
func (o failovers) mayFall(t *task, before, a *arrival) bool {
	if a.Pulled {
		return a.Asked <= before.At.Add(handedOn)
	}
	return len(o.explain(t, before, a)) > 0
}
