package check

import "time"

// OneBody checks invariant 4: all attempts of an occurrence carry one webhook-id and one body, which is the caller's
// byte for byte. A released lease counts as no attempt, because a patch may change the body after it.
func OneBody(x *Index) Finding {
	f := Finding{Invariant: "4", Promise: "repeats carry one webhook-id and one body"}
	first := make(map[string]*arrival, len(x.order)) // first arrival, by webhook-id
	again := map[string]bool{}                       // webhook-ids that arrived more than once
	for _, t := range x.order {
		webhook := map[int64]string{} // webhook-id, by the operation that wrote the payload
		for _, a := range t.arrivals {
			x.bodyWasSent(&f, t, a)
			if a.WebhookID == "" {
				f.breach(a.At, t.id, "an attempt had no webhook-id")
				continue
			}
			switch p := first[a.WebhookID]; {
			case p == nil || p.ID == a.ID && p.released(a.At):
				first[a.WebhookID] = a
			case p.Body != a.Body || p.ID != a.ID:
				f.breach(a.At, t.id, "webhook-id %s came for %s with operation %d's body, and for %s with operation %d's",
					a.WebhookID, p.ID, p.Wrote, a.ID, a.Wrote)
			default:
				again[a.WebhookID] = true
			}
			if known, ok := webhook[a.Wrote]; ok && known != a.WebhookID && x.writesOnce(a.Wrote) {
				f.breach(a.At, t.id, "operation %d's body came under webhook-ids %s and %s", a.Wrote, known, a.WebhookID)
			}
			webhook[a.Wrote] = a.WebhookID
		}
	}
	f.Observe(len(again), "occurrences that came more than once")
	f.figures("%d occurrences arrived", len(first))
	return f
}

// writesOnce reports whether operation n made one occurrence at most.
func (x *Index) writesOnce(n int64) bool {
	o := x.writes[n]
	return o != nil && !o.recurs
}

func (x *Index) bodyWasSent(f *Finding, t *task, a *arrival) {
	switch w := x.writes[a.Wrote]; {
	case w == nil:
		f.breach(a.At, t.id, "an attempt carried a body that no call had sent")
	case w.ask.Body != a.Body:
		f.breach(a.At, t.id, "an attempt carried operation %d's body altered", w.n)
	}
}

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

// Repeats checks invariant 5: without a fault no attempt is repeated, and a failover repeats at most the attempts in
// flight on its shard.
//
//   - An arrival is a repeat if an attempt with its number, or a successful one, came before.
//   - A change of leader explains a repeat only if the outcome of the repeated arrival may have been uncommitted then.
//   - A change of leader explains one repeat of an occurrence.
//
// Leases holds stricter rules against pulled tasks.
func Repeats(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "5", Promise: "repeats are bounded by the attempts in flight"}
	failovers := x.failovers(limits)
	depositions := x.depositions(limits)
	pushed, repeats, inFlight := 0, 0, 0
	explained := map[*window]int{} // number of repeats that each failover explains
	for _, t := range x.attempted() {
		used := map[string]map[*window]int{} // changes of leader already used, by webhook-id
		for i, a := range t.arrivals {
			if a.Pulled {
				continue
			}
			pushed++
			if depositions.between(t.known(), a.At, answeredAt(a)) {
				inFlight++
			}
			p := repeated(t.arrivals[:i], a)
			if p == nil {
				continue
			}
			repeats++
			if used[a.WebhookID] == nil {
				used[a.WebhookID] = map[*window]int{}
			}
			why := failovers.explain(t, p, a)
			if w := takeChange(why, used[a.WebhookID]); w != nil {
				explained[w]++
				continue
			}
			f.breach(a.At, t.id, "%s, attempt %d, came again %v after attempt %d, with %d failovers between",
				a.WebhookID, a.Attempt, a.At.Sub(p.At), p.Attempt, len(why))
		}
	}
	f.Observe(inFlight, "attempts under way when a fault took the leader of their shard")
	all, unprovoked := countFailovers(failovers.windows)
	f.figures("%d arrivals, %d of them repeats; %d failovers, %d of them without a fault of ours; %d repeated something, "+
		"one of them %d", pushed, repeats, all, unprovoked, len(explained), mostOf(explained))
	return f
}

func mostOf(counts map[*window]int) (most Most) {
	for _, n := range counts {
		most = max(most, Most(n))
	}
	return most
}

// takeChange takes one change of leader from the first window that has one left, and returns the window. It returns nil
// if none has.
func takeChange(windows []*window, used map[*window]int) *window {
	for _, w := range windows {
		if used[w] < w.changes {
			used[w]++
			return w
		}
	}
	return nil
}

// repeated returns the earlier arrival that a repeats, nil if a is no repeat. Fences order the attempts of an
// occurrence.
//
//   - An attempt is compared with the attempt of the next lower fence. It rightly follows a failed repeat, even if an
//     attempt before that repeat succeeded. It has the same number if the failed one was a probe of a broken receiver.
//   - An attempt that arrives after attempts of higher fences repeats the one with the next higher fence.
func repeated(before []*arrival, a *arrival) *arrival {
	if a.Pulled {
		return nil // Leases judges repeated leases
	}
	var lower, higher *arrival // the attempts with the next lower and the next higher fence
	for _, p := range before {
		switch {
		case p.WebhookID != a.WebhookID:
		case p.Fence > a.Fence && (higher == nil || p.Fence > higher.Fence):
			higher = p
		case p.Fence <= a.Fence && (lower == nil || p.Fence >= lower.Fence):
			lower = p
		}
	}
	if higher != nil {
		return higher
	}
	if lower != nil && (lower.Delivered() || lower.Attempt > a.Attempt) {
		return lower
	}
	return nil
}
