package check

import (
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/belfryhq/belfry/chaos/history"
)

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
	silent = slices.Contains(shutOut, t.Status)
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
