package check

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
