package check

import (
	"github.com/belfryhq/belfry/chaos/history"
)

// Followed checks invariant 18: a follow-up comes after the end of its task, once.
//
//   - A task with follow-ups whose only call scheduled it, and which was delivered or became a dead letter, has the one
//     of that end, which has so many attempts that it arrives. Nothing comes between the two.
//   - All attempts of a follow-up carry one webhook-id, and the payload that the call has given it.
//   - No follow-up of a delivery comes before an attempt that the receiver or consumer has accepted.
func Followed(x *Index) Finding {
	f := Finding{Invariant: "18", Promise: "a follow-up comes with the end of its task, once"}
	came := map[string][]*history.Arrival{}
	for i := range x.h.FollowUps {
		a := &x.h.FollowUps[i]
		came[a.ID] = append(came[a.ID], a)
	}
	outlived, dead := 0, 0
	for _, t := range x.order {
		w, end := t.followed(x)
		if w == nil {
			continue
		}
		id := t.id + "@" + end
		all := came[id]
		if len(all) == 0 {
			f.breach(w.end, t.id, "operation %d was acknowledged and ended as %s, and no follow-up came", w.n, end)
			continue
		}
		for _, a := range all {
			if a.Wrote != w.n {
				f.breach(a.At, id, "carries the payload of operation %d, not of %d", a.Wrote, w.n)
			}
			if a.WebhookID != all[0].WebhookID {
				f.breach(a.At, id, "came under the webhook-ids %s and %s", all[0].WebhookID, a.WebhookID)
			}
			if first := t.accepted(); end == "delivered" && a.At < first {
				f.breach(a.At, id, "came before the first accepted attempt of its task")
			}
		}
		if end == "dead" {
			dead++
		}
		if x.outlived(t, w) {
			outlived++
		}
	}
	f.Observe(outlived, "tasks with a follow-up that were acknowledged before a fault, and ended after it")
	f.figures("%d follow-ups came, in %d attempts; %d of dead letters", len(came), len(x.h.FollowUps), dead)
	return f
}

// followed returns the operation that made a task with follow-ups and the end of the task, if both are certain, or else
// nil.
func (t *task) followed(x *Index) (w *op, end string) {
	if len(t.ops) != 1 || !t.ops[0].ask.Follow || !t.ops[0].made() {
		return nil, ""
	}
	switch w := t.ops[0]; x.fateOf(t, w) {
	case delivered:
		return w, "delivered"
	case dead:
		return w, "dead"
	}
	return nil, ""
}

// accepted returns the instant of the first attempt that was accepted or may have been, or Forever.
func (t *task) accepted() history.Instant {
	for _, a := range t.arrivals {
		if certain, perhaps := a.taken(); certain || perhaps {
			return a.At
		}
	}
	return history.Forever
}
