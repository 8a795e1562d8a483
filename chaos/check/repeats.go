package check

import "github.com/belfryhq/belfry/chaos/history"

// Repeats checks invariant 5: without a fault nothing is attempted twice, and a failover repeats at most what was in
// flight on its shard. An arrival is a repeat if an attempt of that number, or a successful one, came before. It is
// forgiven once for each failover that lies between the arrival that it repeats, give or take the time in which that
// one's outcome was not yet committed, and itself.
func Repeats(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "5", Promise: "repeats are bounded by what was in flight"}
	windows := x.windows(limits)
	repeats := 0
	for _, t := range x.order {
		forgiven := map[string]int{} // by webhook-id
		for i, a := range t.arrivals {
			p := repeated(t.arrivals[:i], a)
			if p == nil {
				continue
			}
			repeats++
			forgiven[a.WebhookID]++
			n := between(windows[t.shard], p, a, limits)
			if n == 0 || since(windows[t.shard], firstOf(t.arrivals, a.WebhookID), a, limits) < forgiven[a.WebhookID] {
				f.breach(a.At, t.id, "%s, attempt %d, came again %v after attempt %d, with %d failovers between",
					a.WebhookID, a.Attempt, a.At.Sub(p.At), p.Attempt, n)
			}
		}
	}
	f.figures("%d arrivals, %d of them repeats; %d changes of leader without a fault of ours",
		len(x.h.Arrivals), repeats, unprovoked(windows))
	return f
}

// repeated is the arrival that a repeats, the last one if there are several; nil: it is no repeat.
func repeated(before []*history.Arrival, a *history.Arrival) *history.Arrival {
	for i := len(before) - 1; i >= 0; i-- {
		p := before[i]
		if p.WebhookID == a.WebhookID && (p.Delivered() || p.Attempt >= a.Attempt) {
			return p
		}
	}
	return nil
}

func firstOf(arrivals []*history.Arrival, webhookID string) *history.Arrival {
	for _, a := range arrivals {
		if a.WebhookID == webhookID {
			return a
		}
	}
	return nil
}

// between counts the failovers that may have made a of p.
func between(windows []window, p, a *history.Arrival, limits Limits) int {
	n := 0
	for _, w := range windows {
		if w.mayRepeat(p, limits) && a.At >= w.from && a.At <= w.to {
			n++
		}
	}
	return n
}

// since counts the failovers that may have repeated p until a came.
func since(windows []window, p, a *history.Arrival, limits Limits) int {
	n := 0
	for _, w := range windows {
		if w.mayRepeat(p, limits) && a.At >= w.from {
			n++
		}
	}
	return n
}

// mayRepeat: what arrived then may not have been settled yet.
func (w window) mayRepeat(p *history.Arrival, limits Limits) bool {
	return answeredAt(p).Add(limits.Settle) >= w.from
}

// answeredAt is when the receiver answered an arrival: no outcome can be committed before that.
func answeredAt(a *history.Arrival) history.Instant { return a.At.Add(a.Held) }
