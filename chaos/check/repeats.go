package check

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
	each := map[*window]int{} // number of repeats that each failover explains
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
			if w := use(why, used[a.WebhookID]); w != nil {
				each[w]++
				continue
			}
			f.breach(a.At, t.id, "%s, attempt %d, came again %v after attempt %d, with %d failovers between",
				a.WebhookID, a.Attempt, a.At.Sub(p.At), p.Attempt, len(why))
		}
	}
	f.Observe(inFlight, "attempts under way when a fault took the leader of their shard")
	all, unprovoked := countFailovers(failovers.windows)
	f.figures("%d arrivals, %d of them repeats; %d failovers, %d of them without a fault of ours; %d repeated something, "+
		"one of them %d", pushed, repeats, all, unprovoked, len(each), mostOf(each))
	return f
}

func mostOf(each map[*window]int) Most {
	most := 0
	for _, n := range each {
		most = max(most, n)
	}
	return Most(most)
}

// use takes one change of leader from the first window that has one left, and returns the window. It returns nil if
// none has.
func use(windows []*window, used map[*window]int) *window {
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
