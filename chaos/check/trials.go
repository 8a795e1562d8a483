package check

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/belfryhq/belfry/chaos/history"
)

// knownBy is the longest time until each node that is in touch with a majority knows a change of keys and namespaces.
const knownBy = time.Second

// Apart checks invariant 15 in a history of all namespaces: keys decide who sees what.
//
//   - No answer, list or arrival in a namespace shows a payload that a call in another one wrote, whatever failed.
//   - No node takes a call without a key, into another namespace, or beyond the role of its key, whatever failed.
//   - In calm each node refuses an ended key, and takes a live one, from knownBy after the acknowledgement on.
//   - In calm each node lists all acknowledged keys and namespaces, and none that has ended.
//
// Calm means that no fault was under way within the second before the call, and that the last one was mended longer
// before than Limits.Detect. Only then it is certain that the node was in touch with a majority.
func Apart(h *history.History, limits Limits) Finding {
	a := separation{x: &Index{h: h}, limits: limits, wrote: map[int64]string{}}
	a.Invariant, a.Promise = "15", "keys and namespaces keep callers apart"
	a.payloads()
	for i := range h.Trials {
		a.trial(&h.Trials[i])
	}
	for i := range h.Rolls {
		a.roll(&h.Rolls[i])
	}
	a.Observe(a.payloadsSeen, "answers and arrivals that show the namespace of a task")
	a.Observe(a.tasksListed, "listed tasks")
	a.Observe(a.keyless, "calls without a key, refused")
	a.Observe(a.foreign, "calls into another namespace, refused")
	a.Observe(a.beyondRole, "calls beyond a role, refused")
	a.Observe(a.withEndedKey, "calls with a revoked or rotated key to a node in touch with a majority, refused")
	a.Observe(a.listedAfterFault, "keys and namespaces acknowledged before a fault and listed after it")
	a.figures("%d payloads shown and %d listed, %d in another namespace; %d calls with live keys in calm; ended keys "+
		"were taken in calm for %v at most", a.payloadsSeen, a.tasksListed, a.strayPayloads, a.withLiveKey, a.slowest)
	return a.Finding
}

// separation is the check under way.
type separation struct {
	Finding

	x      *Index
	limits Limits
	wrote  map[int64]string // namespace of each operation with a payload

	payloadsSeen, strayPayloads                             int // in answers and arrivals
	tasksListed                                             int
	keyless, foreign, beyondRole, withEndedKey, withLiveKey int // calls
	listedAfterFault                                        int // keys and namespaces

	slowest time.Duration // from the acknowledged end of a key to the last call with it that a node let in
}

// payloads looks for payloads outside the namespace of the call that wrote them.
func (a *separation) payloads() {
	h := a.x.h
	for i := range h.Calls {
		if c := &h.Calls[i]; c.Ask.Body != 0 {
			a.wrote[c.Op] = c.Namespace
		}
	}
	for i := range h.ScheduleCalls {
		if c := &h.ScheduleCalls[i]; c.Body != 0 {
			a.wrote[c.Op] = c.Namespace
		}
	}
	for i := range h.Calls {
		if c := &h.Calls[i]; c.Answer.Wrote != 0 {
			a.payloadsSeen++
			a.requireOwner(c.Namespace, c.Answer.Wrote, c.End, c.ID, "an answer")
		}
	}
	for _, arrivals := range [][]history.Arrival{h.Arrivals, h.Occurrences, h.FollowUps} {
		for i := range arrivals {
			if v := &arrivals[i]; v.Wrote != 0 {
				a.payloadsSeen++
				a.requireOwner(v.Namespace, v.Wrote, v.At, v.ID, "an arrival")
			}
		}
	}
}

// requireOwner notes a breach if an operation of another namespace wrote a payload.
func (a *separation) requireOwner(namespace string, wrote int64, at history.Instant, id, place string) {
	if owner, known := a.wrote[wrote]; known && owner != namespace {
		a.strayPayloads++
		a.breach(at, id, "%s in namespace %q shows the payload of operation %d in namespace %q",
			place, namespace, wrote, owner)
	}
}

// The answers to a call that a node does not let in. The last three say nothing about the caller.
var (
	noEntry   = []int{http.StatusUnauthorized, 0, http.StatusTooManyRequests, unavailable, http.StatusGatewayTimeout}
	invisible = append([]int{notFound}, noEntry...)
	forbidden = append([]int{http.StatusForbidden}, noEntry...)
)

// trial judges a call that tries a credential.
func (a *separation) trial(t *history.Trial) {
	switch t.Ask {
	case history.AskNothing:
		a.requireRefusal(t, noEntry, &a.keyless)
	case history.AskForeign:
		a.requireRefusal(t, invisible, &a.foreign)
	case history.AskBeyond:
		a.requireRefusal(t, forbidden, &a.beyondRole)
	case history.AskOwn:
		a.judgeOwn(t)
	}
}

// requireRefusal notes a breach if a call got another answer than a refusal. It counts the calls that got the first of
// the refusals.
func (a *separation) requireRefusal(t *history.Trial, refusals []int, count *int) {
	if !slices.Contains(refusals, t.Status) {
		a.breach(t.End, "", "%s answered a call that asks for %q with %d", t.Node, t.Ask, t.Status)
	}
	if t.Status == refusals[0] {
		*count++
	}
}

// judgeOwn judges a call that its key allows while the key is live.
func (a *separation) judgeOwn(t *history.Trial) {
	e := &a.x.h.Entries[t.Entry]
	passed := t.Status >= 200 && t.Status <= 299
	refused := t.Status >= 400 && t.Status <= 499 && t.Status != http.StatusTooManyRequests
	switch {
	case !a.inTouch(t.Start):
	case e.Ended != 0 && t.Start >= e.Ended:
		if passed {
			a.slowest = max(a.slowest, t.Start.Sub(e.Ended))
		}
		if t.Start < e.Ended.Add(knownBy) {
			return
		}
		if passed {
			a.breach(t.End, "", "%s let key %s in, %v after it had ended", t.Node, e.ID, t.Start.Sub(e.Ended))
		}
		if refused {
			a.withEndedKey++
		}
	case (e.Ending == 0 || t.End < e.Ending) && t.Start >= e.Made.Add(knownBy):
		if refused {
			a.breach(t.End, "", "%s refused key %s with %d, %v after it was made", t.Node, e.ID, t.Status, t.Start.Sub(e.Made))
		}
		if passed {
			a.withLiveKey++
		}
	}
}

// inTouch reports whether all nodes were in touch with a majority in the second before an instant, as far as the faults
// tell.
func (a *separation) inTouch(at history.Instant) bool {
	from := at.Add(-knownBy)
	return a.x.calmFrom(from, a.limits.Detect, knownBy) == from
}

// roll judges a list.
func (a *separation) roll(r *history.Roll) {
	for _, wrote := range r.Wrote {
		a.tasksListed++
		a.requireOwner(r.Namespace, wrote, r.End, "", "a list of "+r.Node)
	}
	if r.Kind == history.OfTasks || !a.inTouch(r.Start) {
		return
	}
	live, gone := a.expected(r)
	for _, id := range slices.Sorted(maps.Keys(live)) {
		if !slices.Contains(r.IDs, id) {
			a.breach(r.End, "", "%s lists the %s without %s, which was acknowledged and not ended", r.Node, r.Kind, id)
		} else if a.struckSince(live[id], r.Start) {
			a.listedAfterFault++
		}
	}
	for _, id := range r.IDs {
		if gone[id] {
			a.breach(r.End, "", "%s lists %s among the %s, which had ended", r.Node, id, r.Kind)
		}
	}
}

// expected returns the ids that a list must have, each with the instant of its creation, and the ids that it must not
// have.
func (a *separation) expected(r *history.Roll) (live map[string]history.Instant, gone map[string]bool) {
	live, gone = map[string]history.Instant{}, map[string]bool{}
	for i := range a.x.h.Entries {
		e := &a.x.h.Entries[i]
		switch {
		case e.Kind != r.Kind || e.Rotated:
		case (e.Ending == 0 || r.End < e.Ending) && r.Start >= e.Made.Add(knownBy):
			live[e.ID] = e.Made
		case e.Ended != 0 && r.Start >= e.Ended.Add(knownBy):
			gone[e.ID] = true
		}
	}
	return live, gone
}

// struckSince reports whether a fault struck between two instants.
func (a *separation) struckSince(from, to history.Instant) bool {
	return slices.ContainsFunc(a.x.h.Faults, func(f history.Fault) bool { return from < f.Struck && f.Struck < to })
}

// Attacks checks invariant 17 in a history of all namespaces: an attack gains nothing and stops nothing.
//
//   - No receipt that no lease of the called queue gave settles a lease, whatever failed.
//   - In calm a node answers its other callers while one caller without a key holds half-sent requests open.
//   - A node that finds a damaged file at its start sets the file aside.
//   - A node without a majority says that it is not ready.
//   - A schedule whose calendar is closed on each day says that it has ended.
//   - A command prints the texts of a task as printable characters, and no line of its output begins within one.
//
// A node must not end by any of them: that is part of the finding about the nodes' processes. The nodes of a siege know
// no tokens of OpenID Connect. The tests of access/oidc judge those.
func Attacks(h *history.History, limits Limits) Finding {
	f := Finding{Invariant: "17", Promise: "an attack gains nothing and stops nothing"}
	seen := map[string]int{}
	for i := range h.Trials {
		t := &h.Trials[i]
		switch withstood, silent := attacked(h, t, limits); {
		case withstood:
			seen[t.Ask]++
		case !silent:
			f.breach(t.End, "", "%s answered the attack %q with %d %s", t.Node, t.Ask, t.Status, t.Text)
		}
	}
	f.Observe(seen[history.AskForged], "settles with a receipt of no lease of their queue, refused")
	f.Observe(seen[history.AskBeside], "calls answered beside half-sent requests")
	f.Observe(seen[history.AskAside], "damaged files that a start set aside")
	f.Observe(seen[history.AskMinority], "nodes without a majority that said so")
	f.Observe(seen[history.AskNever], "schedules by a closed calendar that have ended")
	f.Observe(seen[history.AskPrinted], "hostile labels printed as text")
	f.figures("%d receipts refused, %d calls beside half-sent requests", seen[history.AskForged], seen[history.AskBeside])
	return f
}

// attacked reports whether a trial shows an attack that was withstood, or shows nothing about one.
func attacked(h *history.History, t *history.Trial, limits Limits) (withstood, silent bool) {
	silent = slices.Contains(noEntry, t.Status)
	switch t.Ask {
	case history.AskForged:
		withstood = t.Status == notFound || t.Status == http.StatusForbidden
		silent = t.Status == 0 || t.Status >= http.StatusBadRequest && t.Status != conflict // that tells of a lease
	case history.AskBeside:
		withstood, silent = t.Status != 0, besideFault(h, t, limits)
	case history.AskAside:
		withstood = t.Status == http.StatusOK
	case history.AskMinority:
		withstood = t.Status == unavailable
	case history.AskNever:
		withstood = t.Status == http.StatusOK && t.Text == ""
	case history.AskPrinted:
		silent = tame(t.Text)
		withstood = silent && strings.Contains(t.Text, history.ForgedLine)
	default:
		silent = true // no attack
	}
	return withstood, silent
}

// besideFault reports whether another fault than half-sent requests may have kept a trial from an answer.
func besideFault(h *history.History, t *history.Trial, limits Limits) bool {
	return slices.ContainsFunc(h.Faults, func(f history.Fault) bool {
		return f.Kind != history.HalfSent && f.Struck <= t.End && healed(&f).Add(limits.Detect) >= t.Start
	})
}

// tame reports whether a text has printable characters and ends of lines alone, and no forged line.
func tame(text string) bool {
	raw := strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
	return !raw && !strings.Contains("\n"+text, "\n"+history.ForgedLine)
}
